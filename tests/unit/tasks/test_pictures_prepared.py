"""What is refused before a task of pictures has read them all."""

import pytest
import torch

from regard.core.errors import ConfigError
from regard.runs.prepare import prepare
from regard.tasks.recipe import recipe_from


@pytest.mark.parametrize("crop", [15, 16])
def test_pictures_are_shifted_by_less_than_their_side(crop):
    asked = recipe_from(
        {
            "task": "image_classification",
            "data": {
                "world": "scenes",
                "n_train": 60,
                "image_size": 16,
                "augment": {"crop": crop},
            },
            "model": {"preset": "vit2021", "size": "tiny", "patch_size": 4},
            "train": {"max_steps": 1, "batch_size": 4},
        }
    )
    if crop < 16:
        prepare(asked, torch.device("cpu"))
        return
    with pytest.raises(ConfigError, match=r"^data\.augment\.crop=16 shifts .*; choose at most 15$"):
        prepare(asked, torch.device("cpu"))
