"""Laws of every model that translates, whatever its family; see ``families``."""

import pytest
import torch
import torch.nn.functional as F
from families import TRANSLATORS, translator

from regard.decoding.beam import beam_search
from regard.decoding.greedy import greedy
from regard.decoding.protocol import begin_tokens
from regard.text.specials import END_ID

every_translator = pytest.mark.parametrize(("preset", "changes"), TRANSLATORS, ids=str)
LENGTHS = (7, 4, 7)
"""Real tokens of each row of ``source``."""
WINDOWS = {"block": (4, 0), "compressed": (3, 1)}
"""A block, a slot: n, and which of n positions in turn does not see the token before it."""


def rounding(preset, changes):
    """Experts multiply their tokens together, and with other company numbers are rounded anew."""
    return 1e-12 if "experts" in changes or preset == "moe2017" else 0.0


def others(ids):
    """A different token at every place."""
    return 4 + (ids - 3) % 9


def written(model, target, memory, state):
    """Logits (B, T, V) of a part of the target, and the state behind it."""
    states, state = model.read(target, memory, state)
    return model.logits(states), state


@every_translator
def test_stepping_equals_forward(source, target, preset, changes):
    model = translator(preset, **changes)
    target = torch.cat((target, target.flip(1), target), dim=1)  # longer than the source
    memory, full = model.encode(source), model(source, target)
    state = model.start(memory)
    for t in range(target.shape[1]):
        logits, state = model.step(target[:, t], memory, state)
        torch.testing.assert_close(logits, full[:, t])


@every_translator
def test_any_cut_into_parts_is_the_whole(source, target, preset, changes):
    model = translator(preset, **changes)
    memory, full = model.encode(source), model(source, target)
    for cut in (1, 2, 5):
        first, state = written(model, target[:, :cut], memory, model.start(memory))
        second, _ = written(model, target[:, cut:], memory, state)
        torch.testing.assert_close(torch.cat((first, second), dim=1), full)


@every_translator
def test_rows_can_be_repeated_and_reordered(source, target, preset, changes):
    model, rows = translator(preset, **changes), torch.tensor([2, 0, 0, 1])
    memory = model.encode(source)
    _, state = written(model, target[:, :4], memory, model.start(memory))
    chosen, _ = model.step(target[rows, 4], memory.select(rows), state.select(rows))
    torch.testing.assert_close(chosen, model(source, target)[rows, 4])


@every_translator
def test_a_state_stays_what_it_was_when_others_go_on_from_it(source, target, preset, changes):
    """Branches may write into room that they share, each its own tokens."""
    model = translator(preset, **changes)
    with torch.inference_mode():
        memory = model.encode(source)
        _, state = written(model, target[:, :3], memory, model.start(memory))
        branches = (target, torch.cat((target[:, :3], others(target[:, 3:])), dim=1))
        begun = [model.step(branch[:, 3], memory, state) for branch in branches]
        for branch, (logits, after) in zip(branches, begun, strict=True):
            full = model(source, branch)
            torch.testing.assert_close(logits, full[:, 3])
            torch.testing.assert_close(model.step(branch[:, 4], memory, after)[0], full[:, 4])


@every_translator
def test_the_future_does_not_leak_and_the_past_matters(source, target, preset, changes):
    model = translator(preset, **changes)
    full, (n, blind) = model(source, target), WINDOWS.get(changes.get("window"), (1, None))
    near = {"rtol": 0.0, "atol": rounding(preset, changes)}
    for t in range(1, target.shape[1]):
        later, before = target.clone(), target.clone()
        later[:, t:] = others(later[:, t:])
        torch.testing.assert_close(model(source, later)[:, :t], full[:, :t], **near)
        before[:, t - 1] = others(before[:, t - 1])
        seen = not torch.allclose(model(source, before)[:, t], full[:, t])
        assert seen == (t % n != blind)


@every_translator
def test_padding_changes_no_real_position_and_rows_are_strangers(source, target, preset, changes):
    model = translator(preset, **changes)
    together = model(source, target)
    torch.testing.assert_close(model(F.pad(source, (0, 5)), target), together)
    for row, length in enumerate(LENGTHS):
        alone = model(source[row : row + 1, :length], target[row : row + 1])
        torch.testing.assert_close(together[row : row + 1], alone)


@every_translator
def test_the_source_matters_at_every_position(source, target, preset, changes):
    model, other = translator(preset, **changes), source.clone()
    other[0, 1] = others(other[0, 1])
    difference = (model(other, target) - model(source, target)).abs().amax(dim=-1)  # (B, T)
    # What has no state hears of a token from the positions that see it, and no others.
    near = preset == "transformer" and changes.get("window") in ("local_m", "block")
    assert (difference[0, : 4 if near else None] > 0).all()
    assert (difference[1:] <= rounding(preset, changes)).all()


@every_translator
@pytest.mark.parametrize("n_beams", [1, 4])
def test_what_a_search_says_of_its_targets_is_what_a_plain_forward_says(
    source, preset, changes, n_beams
):
    model = translator(preset, **changes)
    how = {"limits": torch.full((3,), 6), "length_penalty": 0.0}
    found = beam_search(model, source, **how, n_beams=n_beams)
    for row, hypotheses in enumerate(found):
        for one in hypotheses:
            ids = torch.tensor([*one.ids, *[END_ID] * one.finished])
            target = torch.cat((begin_tokens(source)[row], ids[:-1]))
            told = model(source[row : row + 1], target[None])[0].log_softmax(dim=-1)
            total = told.gather(1, ids[:, None]).sum().item()
            assert one.log_prob == pytest.approx(total, rel=1e-6)
    if n_beams == 1:
        single = greedy(model, source, **how)
        assert [one.ids for one in single] == [of_row[0].ids for of_row in found]
