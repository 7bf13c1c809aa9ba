"""How results differ in a line, and what a process may say of them."""

import pytest
import torch

from regard.practice.comparing import difference
from regard.practice.findings import LONGEST, Finding, State, finding_from


@pytest.mark.parametrize(
    ("wanted", "got", "told"),
    [
        ({"a": 1.0}, {"a": 1.0, "b": 2.0}, "what you return has a 'b' that is not asked for"),
        ({"a": 1.0, "b": 2.0}, {"a": 1.0}, "what you return has no 'b'"),
        ({"a": 1.0}, {"a": 2.0}, "'a': you return 2, not 1"),
        (torch.tensor([1, 2]), torch.tensor([1.0, 2.0]), "holds float32: ids are whole numbers"),
        (torch.tensor([True]), torch.tensor([1]), "holds int64: a boolean tensor is asked for"),
        ((1.0, 2.0), (1.0,), "you return 1 things, not 2"),
        ([1.0, 2.0], [1.0, 3.0], "number 2 of what you return: you return 3, not 2"),
        (torch.zeros(2), torch.tensor([0.0, float("nan")]), "1 of your 2 numbers are NaN"),
    ],
)
def test_what_is_wrong_is_told(wanted, got, told):
    assert told in difference(wanted, got)
    assert difference(wanted, wanted) is None


def test_what_a_process_sends_is_bounded():
    sent = Finding("f", State.WRONG, "m" * 5000, example={"x": "1" * 5000}, yours="y" * LONGEST)
    found = finding_from(sent.as_json())
    assert len(found.message) == len(found.example["x"]) == LONGEST
    assert found.message.endswith("m…")
    assert found.yours == "y" * LONGEST
    many = {f"x{i}": "1" for i in range(21)}
    with pytest.raises(ValueError, match="too many arguments"):
        finding_from(Finding("f", State.WRONG, example=many).as_json())
