"""The loop, on a tiny model and batches that are made here."""

import math
import signal
import time

import pytest
import torch
from tiny import tiny_config

from regard.checkpoints.snapshots import SnapshotStore
from regard.core.errors import CheckpointError, TrainingError
from regard.data.examples import Example
from regard.data.pair_batches import padded_stream
from regard.models.transformer import Transformer
from regard.training.distributed import Ranks, divided
from regard.training.loop import Setup, Trainer
from regard.training.losses import Losses, Objective, cross_entropy
from regard.training.optimisers import OPTIMISERS
from regard.training.settings import TrainSettings


def examples(n=40):
    rng = torch.Generator().manual_seed(5)
    lengths = torch.randint(2, 9, (n, 2), generator=rng).tolist()
    draw = lambda k: torch.randint(4, 13, (k,), generator=rng).tolist()  # noqa: E731
    return [Example(draw(a), draw(b)) for a, b in lengths]


def objective(model, batch):
    logits = model(batch.source, batch.target_in)
    loss = cross_entropy(logits, batch.target_out, pad=0, label_smoothing=0.1)
    return Losses.of("cross_entropy", loss, batch.count)


def times(losses, factor):
    """The same losses, each so many times as large."""
    return Losses({name: value * factor for name, value in losses.sums.items()}, losses.counts)


class Remembering(Objective):
    """An objective that counts its batches and weighs them by the count."""

    def __init__(self, loss):
        self.loss, self.n_batches = loss, 0

    def __call__(self, model, batch):
        self.n_batches += 1
        return times(self.loss(model, batch), 1 + self.n_batches / 100)

    def state(self):
        return {"n_batches": self.n_batches}

    def restore(self, state):
        self.n_batches = state["n_batches"]


def trainer(
    folder,
    *,
    evaluate=None,
    observers=(),
    dropout=0.1,
    objective=objective,
    wrap=lambda model: model,
    keep_best=lambda weights: None,
    **settings,
):
    settings = TrainSettings(
        **{"max_steps": 12, "warmup_steps": 4, "eval_every": 6, "save_every": 4, **settings}
    )
    torch.manual_seed(settings.seed)
    setup = Setup(
        model=wrap(Transformer(tiny_config(dropout=dropout))),
        stream=padded_stream(examples(), batch_tokens=60, seed=settings.seed),
        objective=Remembering(objective),
        evaluate=evaluate or (lambda model: {"loss": 1.0}),
        flops=lambda batch: 1.0,
        store=SnapshotStore(folder),
        keep_best=keep_best,
        device=torch.device("cpu"),
    )
    made = Trainer(setup, settings)
    run = made.run
    made.run = lambda: run(observers)
    return made


def weights(one):
    return {name: p.detach().clone() for name, p in one.model.named_parameters()}


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("average", [0.0, 0.9])
@pytest.mark.parametrize("cut", [4, 8, 12])
def test_resuming_is_the_run_that_was_never_stopped(tmp_path, cut, average):
    whole = trainer(tmp_path / "whole", average=average)
    whole.run()
    first = trainer(tmp_path / "cut", average=average, max_steps=cut)
    first.run()
    second = trainer(tmp_path / "cut", average=average)
    assert not same(weights(second), weights(whole))
    snapshot = second.setup.store.latest()
    before = {name: tensor.clone() for name, tensor in snapshot.tensors.items()}
    second.restore(snapshot)
    assert second.progress.step == cut
    second.run()
    assert same(snapshot.tensors, before)  # a value: training on does not change it
    assert same(weights(second), weights(whole))
    if average:
        assert same(second.average.weights, whole.average.weights)


@pytest.mark.parametrize("optimiser", OPTIMISERS)
def test_resuming_is_exact_with_every_optimiser(tmp_path, optimiser):
    asked = {"optimiser": optimiser, "weight_decay": 0.01, "lr": 1e-2}
    whole = trainer(tmp_path / "whole", **asked)
    fresh = weights(whole)
    whole.run()
    trainer(tmp_path / "cut", **asked, max_steps=8).run()
    second = trainer(tmp_path / "cut", **asked)
    second.restore(second.setup.store.latest())
    second.run()
    assert same(weights(second), weights(whole))
    assert not any(torch.equal(fresh[name], tensor) for name, tensor in weights(whole).items())


class Counting(torch.nn.Module):
    """A model around another that counts its calls in a buffer."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.config = inner, inner.config
        self.register_buffer("n_calls", torch.zeros((), dtype=torch.long))
        self.register_buffer("table", torch.ones(3), persistent=False)

    def forward(self, *inputs):
        self.n_calls += 1
        return self.inner(*inputs)


@pytest.mark.parametrize("average", [0.0, 0.9])
def test_buffers_are_saved_with_the_weights_and_come_back(tmp_path, average):
    kept = []
    first = trainer(tmp_path, max_steps=6, wrap=Counting, average=average, keep_best=kept.append)
    first.run()
    assert kept[-1]["n_calls"] == 6
    assert "table" not in kept[-1]  # is computed anew
    assert kept[-1].keys() == {"n_calls", *dict(first.model.named_parameters())}
    second = trainer(tmp_path, wrap=Counting, average=average)
    second.restore(second.setup.store.latest())
    assert second.model.n_calls == 6


def test_named_losses_are_reported_each_over_its_own_count(tmp_path):
    lines = []

    def two(model, batch):
        losses = objective(model, batch)
        return losses + Losses.of("extra", losses.total.detach() * 0 + 6.0, 3)

    one = trainer(tmp_path, objective=two, log_every=4, max_steps=4, observers=[lines.append])
    one.run()
    line = lines[0]
    assert 1.9 < line["loss_extra"] < 2.2  # 6 over 3, weighed by the count of batches
    assert line["loss_cross_entropy"] < line["loss"]


def test_same_seed_same_weights_other_seed_others(tmp_path):
    runs = []
    for i, seed in enumerate((1, 1, 2)):
        runs.append(trainer(tmp_path / str(i), seed=seed))
        runs[-1].run()
    assert same(weights(runs[0]), weights(runs[1]))
    assert not same(weights(runs[0]), weights(runs[2]))


def test_accumulated_micro_batches_are_one_batch(tmp_path):
    """Gradients of k batches of unequal token counts, against those of all their tokens."""
    one = trainer(tmp_path, dropout=0.0, clip=1e9)
    model = one.model
    batches = [one.setup.stream.next() for _ in range(3)]
    assert len({batch.count for batch in batches}) > 1
    total = sum(
        objective(model, batch).total * (1 + n / 100) for n, batch in enumerate(batches, start=1)
    )
    (total / sum(batch.count for batch in batches)).backward()
    wanted = {name: p.grad.clone() for name, p in model.named_parameters()}
    model.zero_grad()
    one.update.step = lambda: None
    one.update.optimisers[0].zero_grad = lambda **_: None
    one.update(batches, lr=0.1)
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(parameter.grad, wanted[name])


@pytest.mark.parametrize("clip", [1e-3, 0, None])
def test_gradients_are_clipped_unless_that_is_off(tmp_path, clip):
    one, told = trainer(tmp_path, clip=clip), []
    one.update.optimisers[0].zero_grad = lambda **_: None
    one.update([one.setup.stream.next()], 0.1, told.append)
    norm = torch.cat([p.grad.flatten() for p in one.model.parameters()]).norm()
    assert told[0].norm > 0.1  # as it was before
    torch.testing.assert_close(norm, torch.tensor(1e-3) if clip else told[0].norm)


def test_it_can_learn(tmp_path):
    lines = []
    one = trainer(
        tmp_path,
        dropout=0.0,
        max_steps=300,
        lr=1e-2,
        log_every=20,
        observers=[lines.append],
        schedule="constant",
        objective=lambda m, b: Losses.of(
            "cross_entropy",
            cross_entropy(m(b.source, b.target_in), b.target_out, pad=0),
            b.count,
        ),
    )
    one.setup.stream.__dict__ = vars(padded_stream(examples(8), batch_tokens=60, seed=1))
    one.run()
    losses = [line["loss"] for line in lines if line["kind"] == "train"]
    assert losses[0] > 1.0
    assert losses[-1] < 0.1


def test_the_best_weights_are_kept_and_patience_ends_the_run(tmp_path):
    scores = iter([3.0, 1.0, 2.0, 2.0, 2.0])
    kept = []
    one = trainer(
        tmp_path,
        evaluate=lambda _m: {"loss": next(scores)},
        eval_every=2,
        max_steps=100,
        patience=2,
    )
    object.__setattr__(one.setup, "keep_best", lambda w: kept.append(one.progress.step))
    outcome = one.run()
    assert kept == [2, 4]
    assert (outcome.progress.best, outcome.progress.best_step) == (1.0, 4)
    assert outcome.progress.step == 8
    assert "no better for 2 validations" in outcome.reason
    assert one.setup.store.steps() == [4, 8]


@pytest.mark.parametrize("criterion", ["bleu", "perplexity", "a_plugins_metric"])
def test_the_criterion_may_be_any_score_in_either_direction(tmp_path, criterion):
    for sign, best_step in ((-1, 12), (1, 6)):
        scores = iter([{"loss": 1.0, criterion: 0.1}, {"loss": 2.0, criterion: 0.3}])
        folder = tmp_path / str(best_step)
        one = trainer(folder, evaluate=lambda _m, some=scores: next(some), criterion=criterion)
        object.__setattr__(one.setup, "cost", lambda value, sign=sign: sign * value)
        assert one.run().progress.best_step == best_step


def test_a_criterion_that_the_validation_lacks_is_named(tmp_path):
    with pytest.raises(TrainingError, match="no bleu; it has loss"):
        trainer(tmp_path, criterion="bleu").run()


def test_the_evaluator_sees_the_average_in_eval_mode_and_changes_nothing(tmp_path):
    seen = []

    def evaluate(model):
        seen.append((model.training, model.decoder.norm, torch.rand(1).item()))
        average = one.average.weights["decoder.layers.0.feed_forward.inner.weight"]
        assert torch.equal(model.decoder.layers[0].feed_forward.inner.weight, average)
        return {"loss": 1.0}

    one = trainer(tmp_path / "a", evaluate=evaluate, average=0.9)
    one.run()
    assert [training for training, *_ in seen] == [False, False]
    silent = trainer(tmp_path / "b", average=0.9)
    silent.run()
    assert same(weights(one), weights(silent))


def test_a_loss_that_is_not_finite_names_its_batch_and_keeps_the_last_checkpoint(tmp_path):
    calls = []

    def breaking(model, batch):
        calls.append(batch.numbers)
        losses = objective(model, batch)
        return times(losses, math.nan) if len(calls) == 7 else losses

    one = trainer(tmp_path, objective=breaking)
    with pytest.raises(TrainingError, match="loss became nan at step 7") as caught:
        one.run()
    assert tuple(caught.value.numbers) == calls[6]
    assert max(one.setup.store.steps()) == 6  # the best validation, saved before
    good = one.setup.store.latest()
    assert all(tensor.isfinite().all() for tensor in good.part("model/").values())


def test_a_training_that_fails_ends_when_its_last_checkpoint_is_whole(tmp_path):
    one = trainer(tmp_path, evaluate=failing_at_once, save_every=5)
    store, begin = one.setup.store, one.setup.store.begin
    store.begin = lambda write: begin(lambda: (time.sleep(0.3), write()))
    with pytest.raises(ZeroDivisionError):
        one.run()
    assert store.steps() == [5]


def failing_at_once(_model):
    raise ZeroDivisionError


def test_a_checkpoint_that_cannot_be_written_does_not_hide_why_a_training_failed(tmp_path):
    one = trainer(tmp_path, evaluate=failing_at_once, save_every=5)

    def full():
        raise OSError("no space is left")

    begin = one.setup.store.begin
    one.setup.store.begin = lambda _write: begin(full)
    with pytest.raises(ZeroDivisionError) as caught:
        one.run()
    assert caught.value.__notes__ == ["no space is left"]


def test_a_gradient_that_is_not_finite_never_reaches_the_weights(tmp_path):
    """A finite loss can have an infinite gradient: sqrt at zero, for one."""
    calls = []

    def breaking(model, batch):
        calls.append(batch.numbers)
        losses = objective(model, batch)
        zero = (losses.total - losses.total.detach()).abs()
        return losses + Losses.of("root", zero.sqrt(), 1) if len(calls) == 4 else losses

    one = trainer(tmp_path, objective=breaking, save_every=1)
    with pytest.raises(TrainingError, match="gradient became .* at step 4"):
        one.run()
    assert one.setup.store.steps()[-1] == 3
    assert all(p.isfinite().all() for p in one.model.parameters())


def test_a_validation_that_is_not_finite_is_never_the_best(tmp_path):
    one = trainer(tmp_path, evaluate=lambda _m: {"loss": math.nan})
    with pytest.raises(TrainingError, match="validation's loss became nan at step 6"):
        one.run()


def test_other_data_is_refused_before_anything_is_changed(tmp_path):
    one = trainer(tmp_path, max_steps=4)
    one.run()
    other = trainer(tmp_path)
    other.setup.stream.__dict__ = vars(padded_stream(examples(12), batch_tokens=60, seed=1))
    before = weights(other)
    with pytest.raises(CheckpointError, match="data"):
        other.restore(one.setup.store.latest())
    assert same(weights(other), before)


def test_the_last_snapshot_knows_of_the_last_validation(tmp_path):
    """Step 7 is saved, then validated because the run ends there."""
    one = trainer(tmp_path, max_steps=7, save_every=7, eval_every=5)
    scores = iter([1.0, 2.0])
    object.__setattr__(one.setup, "evaluate", lambda _m: {"loss": next(scores)})
    one.run()
    assert one.setup.store.latest().facts["progress"]["last_eval"] == 7


def test_a_signal_ends_the_step_saves_and_is_reported(tmp_path):
    def observe(line):
        if line["step"] == 5:
            signal.raise_signal(signal.SIGTERM)

    one = trainer(tmp_path, observers=[observe], log_every=5, eval_every=100)
    outcome = one.run()
    assert outcome.signal is signal.SIGTERM
    assert outcome.progress.step == 5
    assert one.setup.store.steps()[-1] == 5
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_the_last_two_and_the_best_snapshots_are_kept(tmp_path):
    scores = iter([1.0, *[2.0] * 20])
    one = trainer(
        tmp_path,
        evaluate=lambda _m: {"loss": next(scores)},
        eval_every=3,
        save_every=2,
        max_steps=14,
    )
    one.run()
    assert one.setup.store.steps() == [3, 12, 14]


def test_max_minutes_ends_the_run(tmp_path):
    outcome = trainer(tmp_path, max_steps=None, max_minutes=1e-4).run()
    assert "max_minutes" in outcome.reason
    assert outcome.progress.step >= 1


def test_a_signal_while_the_others_are_asked_is_not_lost(tmp_path, monkeypatch):
    asked = []

    def largest(_ranks, *numbers):
        asked.append(numbers)
        if len(asked) == 2:
            signal.raise_signal(signal.SIGTERM)
        return [*numbers]

    monkeypatch.setattr(Ranks, "largest", largest)
    outcome = trainer(tmp_path, max_steps=9).run()
    assert outcome.signal is signal.SIGTERM
    assert outcome.progress.step == 2


def test_a_validation_cut_short_by_a_signal_is_made_when_it_goes_on(tmp_path):
    def interrupted(_model):
        signal.raise_signal(signal.SIGTERM)
        return {"loss": sum(divided([1.0, 2.0], lambda x: x))}

    whole = trainer(tmp_path / "whole", max_steps=4, eval_every=2)
    whole.run()
    cut = trainer(tmp_path / "cut", max_steps=4, eval_every=2, evaluate=interrupted)
    outcome = cut.run()
    assert (outcome.signal, outcome.progress.step) == (signal.SIGTERM, 2)
    assert outcome.progress.last_eval == 0
    lines = []
    going_on = trainer(tmp_path / "cut", max_steps=4, eval_every=2, observers=[lines.append])
    going_on.restore(going_on.setup.store.latest())
    going_on.run()
    assert [line["step"] for line in lines if line["kind"] == "valid"] == [2, 4]
    assert same(weights(whole), weights(going_on))
