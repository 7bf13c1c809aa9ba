"""Laws of generation that hold for translators and language models alike.

Oracles ask a plain forward for every prefix; they share nothing with searches or caches.
"""

import math
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from language_models import LLAMA, language_model
from systems import system

from regard.core.errors import ShapeError
from regard.decoding.beam import beam_search
from regard.decoding.ensemble import Ensemble
from regard.decoding.greedy import collected, greedy, most_probable, token_steps
from regard.decoding.protocol import ControlIds, begin_tokens, no_source
from regard.decoding.sampling import Sampler, noise_for, sample
from regard.decoding.trace import trace
from regard.fast.quick import quickened

N_VOCAB = 7


@dataclass(frozen=True)
class Case:
    """A model with three inputs."""

    model: Any
    source: torch.Tensor
    prompt: torch.Tensor
    control: ControlIds

    @property
    def how(self):
        return {"prompt": self.prompt, "control": self.control}

    def log_probs(self, row, ids):
        """{token: log-probability} after what was written, by a plain forward."""
        target = torch.cat((self.prompt[row], torch.tensor(ids, dtype=torch.long)))
        logits = self.model(self.source[row : row + 1], target[None])[0, -1]
        found = logits.double().log_softmax(dim=-1).tolist()
        return {i: x for i, x in enumerate(found) if i not in self.control.suppressed}

    def log_prob(self, row, written):
        return sum(self.log_probs(row, written[:t])[token] for t, token in enumerate(written))


def translator(preset, **changes):
    model = system(preset, n_vocab=N_VOCAB, **changes).double()
    with torch.no_grad():
        for weight in model.parameters():
            weight += 0.3 * torch.randn_like(weight)  # else all tokens are alike
    source = torch.tensor([[4, 5, 6, 2], [5, 3, 2, 0], [6, 2, 0, 0]])
    return Case(model, source, begin_tokens(source), ControlIds())


def together():
    """An RNN and a Transformer."""
    cases = [translator("luong2015"), translator("transformer")]
    return replace(cases[0], model=Ensemble([case.model for case in cases]))


def writer(ends=(2,), suppressed=(0,), **changes):
    model = language_model(n_vocab=N_VOCAB, **changes).double()
    prompt = torch.tensor([[4, 5, 6], [5, 3, 1], [6, 6, 2]])
    return Case(model, no_source(prompt), prompt, ControlIds(frozenset(ends), tuple(suppressed)))


CASES = {
    "transformer": lambda: translator("transformer"),
    "luong2015": lambda: translator("luong2015"),
    "cheng2016": lambda: translator("cheng2016"),
    "ensemble": together,
    "gpt": writer,
    "llama": lambda: writer(**LLAMA, n_kv_heads=2),
    "two ends": lambda: writer(ends=(2, 5), suppressed=(0, 3)),
    "no end": lambda: writer(ends=(), suppressed=()),
}
LIMITS = torch.tensor([3, 2, 3])


@pytest.fixture(params=CASES)
@torch.no_grad()
def case(request):
    torch.manual_seed(1)
    return CASES[request.param]()


def limits(n):
    return torch.full((3,), n)


@torch.inference_mode()
def test_stepping_equals_forward(case, rng):
    target = torch.cat((case.prompt, torch.randint(3, N_VOCAB, (3, 5), generator=rng)), dim=1)
    full = case.model(case.source, target)
    memory = case.model.encode(case.source)
    state = case.model.start(memory)
    for t in range(target.shape[1]):
        logits, state = case.model.step(target[:, t], memory, state)
        torch.testing.assert_close(logits, full[:, t])


@torch.inference_mode()
def test_a_state_that_is_selected_goes_on_as_its_rows_did(case, rng):
    target = torch.cat((case.prompt, torch.randint(3, N_VOCAB, (3, 4), generator=rng)), dim=1)
    full, rows = case.model(case.source, target), torch.tensor([2, 0, 2, 1])
    memory = case.model.encode(case.source)
    state = case.model.start(memory)
    for t in range(target.shape[1] - 1):
        _, state = case.model.step(target[:, t], memory, state)
    found, _ = case.model.step(target[rows, -1], memory.select(rows), state.select(rows))
    torch.testing.assert_close(found, full[rows, -1])


def exhaustive(case, row, limit, n_best, alpha):
    """Every text there is: [(ids with the end, log-probability)], best first."""
    finished, open_ = [], [((), 0.0)]
    for _ in range(limit):
        grown = [
            ((*ids, token), total + more)
            for ids, total in open_
            for token, more in case.log_probs(row, ids).items()
        ]
        finished += [pair for pair in grown if pair[0][-1] in case.control.ends]
        open_ = [pair for pair in grown if pair[0][-1] not in case.control.ends]
    ranked = [
        sorted(part, key=lambda pair: -pair[1] / ((5 + len(pair[0])) / 6) ** alpha)
        for part in (finished, open_)
    ]
    return (ranked[0] + ranked[1])[:n_best]


@pytest.mark.parametrize("alpha", [0.0, 1.0])
@torch.no_grad()
def test_many_beams_equal_exhaustive_search(case, alpha):
    found = beam_search(
        case.model, case.source, limits=LIMITS, n_beams=N_VOCAB**3, n_best=5,
        length_penalty=alpha, **case.how,
    )  # fmt: skip
    for row, (limit, hypotheses) in enumerate(zip(LIMITS.tolist(), found, strict=True)):
        wanted = exhaustive(case, row, limit, 5, alpha)
        assert [one.log_prob for one in hypotheses] == pytest.approx([p for _, p in wanted])
        words = [ids[:-1] if ids[-1] in case.control.ends else ids for ids, _ in wanted]
        assert [one.ids for one in hypotheses] == words


@torch.no_grad()
def test_one_beam_is_greedy_and_follows_a_plain_forward(case):
    found = greedy(case.model, case.source, limits=limits(6), **case.how)
    beams = beam_search(case.model, case.source, limits=limits(6), n_beams=1, **case.how)
    assert [[one] for one in found] == beams
    for row, one in enumerate(found):
        ids = []
        while len(ids) < 6 and not (ids and ids[-1] in case.control.ends):
            told = case.log_probs(row, ids)
            ids.append(max(told, key=told.get))
        assert one.finished == (ids[-1] in case.control.ends)
        assert one.ids == tuple(ids[:-1] if one.finished else ids)


@pytest.mark.parametrize("stop", ["exact", "first"])
@torch.no_grad()
def test_scores_are_found_again_by_a_plain_forward(case, stop):
    found = beam_search(
        case.model, case.source, limits=limits(5), n_beams=4, n_best=3, stop=stop, **case.how
    )
    assert {len(several) for several in found} == {3}
    for row, several in enumerate(found):
        assert [one.score for one in several if one.finished] == sorted(
            (one.score for one in several if one.finished), reverse=True
        )
        for one in several:
            ends = [(*one.ids, end) for end in case.control.ends] if one.finished else [one.ids]
            totals = [case.log_prob(row, written) for written in ends]
            assert any(math.isclose(one.log_prob, total, rel_tol=1e-6) for total in totals)
            assert one.score == pytest.approx(one.log_prob / ((5 + len(ends[0])) / 6) ** 0.6)


def with_prefixes(case, prefixes, n, n_beams=1):
    """The best text of each row, of at most n tokens."""
    how = {"limits": limits(n), **case.how}
    found = beam_search(case.model, case.source, n_beams=n_beams, prefixes=prefixes, **how)
    return [one for (one,) in found]


@pytest.mark.parametrize("n_beams", [1, 3])
@torch.no_grad()
def test_each_text_begins_with_its_forced_prefix_which_is_scored(case, n_beams):
    prefixes = ((4, 6), (), (6,))
    found = with_prefixes(case, prefixes, 5, n_beams)
    for row, (one, prefix) in enumerate(zip(found, prefixes, strict=True)):
        assert one.ids[: len(prefix)] == prefix
        ends = [(*one.ids, end) for end in case.control.ends] if one.finished else [one.ids]
        totals = [case.log_prob(row, written) for written in ends]
        assert any(math.isclose(one.log_prob, total, rel_tol=1e-6) for total in totals)
    free = with_prefixes(case, (), 5, n_beams)
    assert found[1].ids == free[1].ids  # what others are forced to changes nothing
    assert found[1].log_prob == pytest.approx(free[1].log_prob)


@torch.no_grad()
def test_a_prefix_that_greedy_search_had_chosen_changes_nothing(case):
    free = with_prefixes(case, (), 6)
    for n in range(7):
        forced = with_prefixes(case, [one.ids[:n] for one in free], 6)
        assert [one.ids for one in forced] == [one.ids for one in free]
        wanted = [one.log_prob for one in free]
        assert [one.log_prob for one in forced] == pytest.approx(wanted)


@torch.no_grad()
def test_samples_begin_with_their_prefix_and_are_drawn_after_it(case):
    prefixes = ((4, 6), (), (6,))
    found = set()
    for seed in range(8):
        noise = noise_for([5] * 3, torch.Generator().manual_seed(seed))
        how = {"limits": limits(5), "sampler": Sampler(noise, temperature=3.0), **case.how}
        texts = sample(case.model, case.source, prefixes=prefixes, **how)
        assert [one.ids[: len(p)] for one, p in zip(texts, prefixes, strict=True)] == [*prefixes]
        found.add(texts[0].ids)
    assert len(found) > 1


def test_there_are_as_many_prefixes_as_rows(case):
    with pytest.raises(ShapeError, match="a prefix a row, got 2 for 3 rows"):
        with_prefixes(case, ((4,), (5,)), 5)


@pytest.mark.parametrize("n_beams", [1, 3])
@torch.no_grad()
def test_who_asks_may_end_a_text_after_any_token(case, n_beams):
    ended = lambda row, ids: len(ids) > row  # noqa: E731
    found = beam_search(
        case.model, case.source, limits=limits(6), n_beams=n_beams, ended=ended, **case.how
    )
    for row, (one,) in enumerate(found):
        assert one.finished
        assert len(one.ids) <= row + 1
        if not case.control.ends:
            assert one.log_prob == pytest.approx(case.log_prob(row, one.ids))


@torch.no_grad()
def test_what_nobody_waits_for_stops(case):
    for n_beams in (1, 3):
        asked = []
        found = beam_search(
            case.model, case.source, limits=limits(6), n_beams=n_beams,
            dropped=lambda asked=asked: asked.append(1) or len(asked) > 2, **case.how,
        )  # fmt: skip
        assert all(len(one.ids) <= 3 for (one,) in found)


@torch.no_grad()
def test_tokens_come_one_by_one(case):
    whole = greedy(case.model, case.source, limits=limits(6), **case.how)
    coming = token_steps(
        case.model, case.source, limits=limits(6), choose=most_probable, **case.how
    )
    first = next(coming)
    assert first.rows == [0, 1, 2]
    again = collected(iter([first, *coming]), 3, case.control, 0.6)
    assert again == whole


PROBS = {"temperature": 1.0}, {"temperature": 0.5}, {"top_k": 2}, {"top_p": 0.7}


@pytest.mark.parametrize("cuts", PROBS, ids=str)
@torch.no_grad()
def test_frequencies_are_near_the_probabilities(case, cuts):
    n = 3000
    one = {name: part[:1].expand(n, -1) for name, part in (("prompt", case.prompt),)}
    rng = torch.Generator().manual_seed(5)
    found = sample(
        case.model, case.source[:1].expand(n, -1), limits=torch.ones(n, dtype=torch.long),
        sampler=Sampler(noise_for([1] * n, rng), **cuts), control=case.control, **one,
    )  # fmt: skip
    told = {i: math.exp(p / cuts.get("temperature", 1.0)) for i, p in case.log_probs(0, ()).items()}
    ranked, kept, total = sorted(told, key=told.get, reverse=True), [], 0.0
    for i in ranked:
        if len(kept) < cuts.get("top_k", 99) and total < cuts.get("top_p", 9) * sum(told.values()):
            kept.append(i)
            total += told[i]
    ends = sum(told[i] for i in kept if i in case.control.ends)
    expected = {i: n * told[i] / total for i in kept if i not in case.control.ends}
    counts = Counter(h.ids[0] for h in found if not h.finished)
    assert counts.keys() <= expected.keys()
    chi_square = sum((counts[i] - e) ** 2 / e for i, e in expected.items())
    if ends:
        e = n * ends / total
        chi_square += (sum(h.finished for h in found) - e) ** 2 / e
    assert chi_square < 24.3  # 0.1 % at 7 degrees of freedom, which is more than there are


@torch.no_grad()
def test_samples_are_the_models_own_and_cut_to_one_they_are_greedy(case):
    best = greedy(case.model, case.source, limits=limits(5), **case.how)
    noise = noise_for([5] * 3, torch.Generator().manual_seed(2))
    for cuts in ({"temperature": 0.0}, {"temperature": 1e-9}, {"top_k": 1}):
        sampler = Sampler(noise, **cuts)
        found = sample(case.model, case.source, limits=limits(5), sampler=sampler, **case.how)
        assert [one.ids for one in found] == [one.ids for one in best]
    sampler = Sampler(noise, temperature=3.0)
    found = sample(case.model, case.source, limits=limits(5), sampler=sampler, **case.how)
    assert [one.ids for one in found] != [one.ids for one in best]
    for row, one in enumerate(found):
        ends = [(*one.ids, end) for end in case.control.ends] if one.finished else [one.ids]
        totals = [case.log_prob(row, written) for written in ends]
        assert any(math.isclose(one.log_prob, total, rel_tol=1e-6) for total in totals)


@torch.no_grad()
def test_the_tree_of_a_search_ends_with_what_it_found(case):
    how = {name: part[:1] for name, part in (("prompt", case.prompt),)}
    settings = {"limits": torch.tensor([4]), "n_beams": 3, "control": case.control, **how}
    ((best,),) = beam_search(case.model, case.source[:1], **settings)
    nodes = trace(case.model, case.source[:1], **settings)
    (winner,) = [node for node in nodes if node.state == "best"]
    ids, node = [], winner
    while node.parent is not None:
        ids.insert(0, node.token_id)
        node = nodes[node.parent]
    assert tuple(ids[: len(best.ids)]) == best.ids
    assert winner.total == pytest.approx(best.log_prob)


@pytest.mark.parametrize("n_beams", [2, 3])
@pytest.mark.parametrize("ahead", [False, True], ids=["after", "ahead"])
@torch.no_grad()
def test_beams_in_a_static_cache_find_the_same(monkeypatch, n_beams, ahead):
    from regard.fast import weights
    from regard.fast.language_model import TextCache

    monkeypatch.setattr(TextCache, "ahead", property(lambda _: ahead, lambda *_: None), False)
    if ahead:
        monkeypatch.setattr(weights, "can_pack", lambda _: False)
    model = language_model(**LLAMA, n_kv_heads=2)
    prompt = torch.tensor([[4, 5, 6], [5, 3, 1], [6, 6, 2]])
    how = {
        "limits": torch.tensor([9, 3, 7]), "prompt": prompt, "n_beams": n_beams, "n_best": 2,
        "control": ControlIds(frozenset({2, 5}), (0,)),
    }  # fmt: skip
    wanted = beam_search(model, no_source(prompt), **how)
    from regard.fast.language_model import StaticLanguageModel

    form = StaticLanguageModel(model, torch.float32) if ahead else quickened(model)
    assert isinstance(form, StaticLanguageModel)
    found = beam_search(form, no_source(prompt), **how)
    for mine, theirs in zip(found, wanted, strict=True):
        assert [one.ids for one in mine] == [one.ids for one in theirs]
        assert [one.score for one in mine] == pytest.approx([o.score for o in theirs], abs=1e-4)


def test_a_language_model_has_no_source():
    model = language_model()
    with pytest.raises(ShapeError, match="no source, but this one has 4 tokens"):
        model.encode(torch.ones(2, 4, dtype=torch.long))


def test_every_law_is_asked_of_both_kinds():
    kinds = Counter(make().source.shape[1] == 0 for make in CASES.values())
    assert min(kinds.values()) >= 3
