"""Two processes that share the work are one that does it all."""

import signal

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from systems import system
from torch.nn.parallel import DistributedDataParallel

from regard.checkpoints.snapshots import SnapshotStore
from regard.data.examples import Example
from regard.data.pair_batches import padded_stream
from regard.training.distributed import Ranks
from regard.training.loop import Setup, Trainer
from regard.training.settings import TrainSettings
from regard.training.token_loss import TokenLoss
from regard.training.update import Update

CPU = torch.device("cpu")
PAIRS = [Example([4, 5, 6][: n % 3 + 1], [7, 8, 4, 5][: n % 4 + 1]) for n in range(40)]


def updated(batches, ranks=Ranks()):  # noqa: B008
    """Weights after two updates, and what was observed."""
    settings = TrainSettings(max_steps=1, precision="fp32")
    model = system("transformer", dropout=0.0).train()
    update, results = Update(model, TokenLoss(settings), settings, CPU, ranks), []
    for some in batches:
        update(some, 0.01, results.append)
    return {name: p.detach() for name, p in model.named_parameters()}, results


def trained(folder, ranks=Ranks(), **settings):  # noqa: B008
    """Weights after four steps, what was reported, and the steps that were saved."""
    settings = TrainSettings(
        max_steps=4, log_every=2, precision="fp32", warmup_steps=2, accumulate=2, **settings
    )
    lines = []
    setup = Setup(
        model=system("transformer", dropout=0.0),
        stream=padded_stream(PAIRS, batch_tokens=24, seed=1).part(ranks.share(2)),
        objective=TokenLoss(settings),
        evaluate=lambda _model: {"loss": 1.0},
        flops=lambda _batch: 1.0,
        store=SnapshotStore(folder),
        keep_best=lambda _weights: None,
        device=CPU,
        ranks=ranks,
    )
    trainer = Trainer(setup, settings)
    trainer.run([lines.append])
    weights = {name: p.detach() for name, p in trainer.model.named_parameters()}
    return weights, lines, setup.store.steps()


def batches():
    """Of two updates, two micro-batches each; their token counts differ."""
    stream = padded_stream(PAIRS, batch_tokens=24, seed=1)
    return [[stream.next(), stream.next()] for _ in range(2)]


def gradients(model, *some):
    """Of the summed loss of batches."""
    loss = TokenLoss(TrainSettings(max_steps=1, precision="fp32"))
    sum(loss(model.train(), batch).total for batch in some).backward()
    inner = getattr(model, "module", model)  # of DDP, with which we compare
    return {name: p.grad.clone() for name, p in inner.named_parameters()}


def share_the_work(rank, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    ranks = Ranks.current()
    weights, results = updated([[both[rank]] for both in batches()], ranks)
    found = {
        "weights": weights,
        "n_tokens": [result.n_tokens for result in results],
        "norms": [result.norm for result in results],
        "sum": ranks.add([rank + 1.0, 10.0]),
        "largest": ranks.largest(signal.SIGTERM if rank else 0, rank == 0, 0),
        "writer": ranks.is_writer,
        "trained": trained(folder / f"run-{rank}", ranks),
        "ddp": gradients(
            DistributedDataParallel(system("transformer", dropout=0.0)), batches()[0][rank]
        ),
    }
    torch.save(found, folder / f"{rank}.pt")
    dist.destroy_process_group()


@pytest.mark.skipif(not dist.is_gloo_available(), reason="needs gloo")
def test_two_processes_make_the_update_of_one(tmp_path):
    mp.spawn(share_the_work, args=(tmp_path,), nprocs=2)
    first, second = (torch.load(tmp_path / f"{n}.pt", weights_only=False) for n in (0, 1))
    weights, results = updated(batches())
    for one in (first, second):
        assert one["n_tokens"] == [result.n_tokens for result in results]
        for norm, result in zip(one["norms"], results, strict=True):
            torch.testing.assert_close(norm, result.norm)
        for name, tensor in weights.items():
            torch.testing.assert_close(one["weights"][name], tensor)
        assert one["sum"] == [3.0, 20.0]
        assert one["largest"] == [signal.SIGTERM, 1, 0]
    assert (first["writer"], second["writer"]) == (True, False)
    alone, lines, steps = trained(tmp_path / "alone")
    found, said, saved = first["trained"]
    assert saved == steps
    assert [one["tokens"] for one in said] == [one["tokens"] for one in lines]
    for key in ("loss", "grad_norm"):
        pairs = zip(said, lines, strict=True)
        assert all(a.get(key, 0) == pytest.approx(b.get(key, 0), rel=1e-4) for a, b in pairs)
    for name, tensor in alone.items():
        torch.testing.assert_close(found[name], tensor)
        assert torch.equal(second["trained"][0][name], found[name])
    assert second["trained"][1:] == ([], [])
    for name, tensor in first["weights"].items():
        assert torch.equal(second["weights"][name], tensor)

    summed = gradients(system("transformer", dropout=0.0), *batches()[0])
    for name, gradient in summed.items():  # DDP takes the mean over processes
        torch.testing.assert_close(2 * first["ddp"][name], gradient)


def test_alone_a_process_writes_and_asks_nobody():
    alone = Ranks.current()
    assert alone == Ranks(0, 1)
    assert alone.is_writer
    assert alone.add([2, 3]) == [2, 3]
    assert alone.largest(signal.SIGINT, 0) == [signal.SIGINT, 0]
    assert alone.gather("a") == ["a"]
    assert alone.by_writer(lambda: 5) == 5
