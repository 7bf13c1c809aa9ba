"""What the section ``train`` takes."""

import pytest

from regard.training.settings import TrainSettings


@pytest.mark.parametrize("compiled", ["auto", True, False])
def test_compiling_is_a_choice_of_three(compiled):
    assert TrainSettings(max_steps=1, compile=compiled).compile == compiled


@pytest.mark.parametrize("compiled", ["maybe", 1, None])
def test_what_compiling_cannot_be_is_told_in_one_phrase(compiled):
    with pytest.raises(ValueError, match="expected auto, true or false") as told:
        TrainSettings(max_steps=1, compile=compiled)
    assert len(told.value.errors()) == 1
