"""Heads ablated many at once are as heads ablated one by one."""

import pytest
import torch
from systems import SYSTEMS, system, untrained

from regard.core.errors import ConfigError, ShapeError
from regard.inspection import importance
from regard.inspection.capture import viewpoints
from regard.inspection.edits import Ablate, Temperature, edited
from regard.inspection.importance import AblateByRow, joined, passes

SOURCE = torch.tensor([[5, 6, 7, 8, 2]])
TARGET = torch.tensor([[1, 4, 5, 6]])
SAID = torch.tensor([4, 5, 6, 2])


def judged(model):
    """Reads so many copies, and keeps how many they were."""

    def judge(n):
        judge.rows.append(n)
        logits = model(SOURCE.expand(n, -1), TARGET.expand(n, -1))
        return logits.softmax(dim=-1)[:, torch.arange(4), SAID]

    judge.rows = []
    return judge


@pytest.mark.parametrize(("preset", "changes"), SYSTEMS, ids=str)
def test_all_heads_at_once_are_as_one_after_the_other(preset, changes):
    model = system(preset, **changes)
    heads, whole, without = joined(passes(model, judged(model), row_numbers=1))
    assert {(name, layer) for name, layer, _ in heads} == {at for at, _ in viewpoints(model)}
    judge = judged(model)
    with torch.inference_mode():
        torch.testing.assert_close(whole, judge(1)[0])
        for head, found in zip(heads, without, strict=True):
            with edited(model, [Ablate(*head)]):
                torch.testing.assert_close(found, judge(1)[0], rtol=1e-4, atol=1e-6)
    assert (without - whole).abs().max() > 1e-6  # something rests on them


def test_a_pass_has_as_many_rows_as_there_is_room_for(monkeypatch):
    model = system("transformer")
    judge, few = judged(model), judged(model)
    whole = joined(passes(model, judge, row_numbers=1))
    assert judge.rows == [1, len(whole.heads)]
    weights = 3 * 5 * 5  # of the largest attention: heads, source, source
    monkeypatch.setattr(importance, "MOST_NUMBERS", 4 * (weights + 100))
    parts = joined(passes(model, few, row_numbers=100))
    assert few.rows == [1, 4, 4, 4, 4, 2]
    torch.testing.assert_close(parts.without, whole.without)


def test_other_edits_hold_in_each_pass_and_not_between_two():
    model = system("transformer")
    judge, hot = judged(model), [Temperature(3.0)]
    plain = judge(1)
    coming, found = passes(model, judge, row_numbers=1, edits=hot), []
    for part in coming:
        found.append(part)
        torch.testing.assert_close(judge(1), plain)
    whole, without = found[0][1], found[1][1]
    (first, *_), _ = found[0]
    with edited(model, hot):
        torch.testing.assert_close(whole, judge(1))
    with edited(model, [*hot, Ablate(*first)]):
        torch.testing.assert_close(without[0], judge(1)[0])


def test_rows_that_are_not_those_of_the_batch_are_refused():
    model = system("transformer")
    with (
        edited(model, [AblateByRow("decoder.cross", 0, (0, 1))]),
        pytest.raises(ShapeError, match="decoder.cross 0 was given 1 rows, but heads of 2"),
    ):
        judged(model)(1)


def test_a_run_tells_what_a_token_loses_without_each_head():
    run = untrained("transformer")
    look = run.explain("a b c", "c b a")
    found = run.importance("a b c", step=1, target="c b a")
    assert (found.token, len(found.heads)) == ("b", 18)
    assert found.probability == pytest.approx(look.written.probabilities[1], rel=1e-5)
    for one in found.heads[::5]:
        edit = Ablate(one.attention, one.layer, one.head)
        alone = run.explain("a b c", "c b a", edit=edit).written.probabilities[1]
        assert one.without == pytest.approx(alone, rel=1e-4)
    assert found.ranked[0].without == min(one.without for one in found.heads)
    first, *_ = str(found.table().rows[0][0]).split()
    assert first == found.ranked[0].attention
    assert str(found).startswith("'b' has probability 0.")
    assert "decoder.cross 1.2" in found._repr_html_()


def test_the_end_of_a_target_is_a_token_too():
    run = untrained("luong2015")
    assert run.importance("a b c", step=3, target="c b a").token == "</s>"


@pytest.mark.parametrize("step", [-1, 4, True, "1", 1.0, None])
def test_a_step_that_is_none_is_refused_in_one_line(step):
    told = "step is 0 to 3, of 'c' to '</s>', not "
    with pytest.raises(ConfigError, match=told) as error:
        untrained("transformer").importance("a b c", step=step, target="c b a")
    assert "\n" not in str(error.value)
