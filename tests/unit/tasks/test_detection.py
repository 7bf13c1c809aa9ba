"""The task detection: columns, boxes that follow their pictures, and what is refused."""

import numpy as np
import pytest
import torch

from regard.core.errors import ConfigError, DataError
from regard.data.batch import Batch
from regard.data.picture_batches import DRAWN
from regard.data.picture_records import BoxedPicture
from regard.data.pictures import ArrayPicture
from regard.functional.boxes import to_corners, to_middles
from regard.models.detection import Detections
from regard.runs.prepare import prepare
from regard.tasks.detection import SetLoss, moved_boxes
from regard.tasks.detector import box_masks, numbers_of, said
from regard.tasks.recipe import recipe_from
from regard.training.set_prediction import NO_OBJECT

TINY = {"d_model": 16, "n_layers": 1, "n_heads": 2, "d_ff": 16, "n_queries": 6}


def recipe(**changes):
    return recipe_from(
        {
            "task": "detection",
            "data": {"world": "scenes", "n_train": 40, "image_size": 32, **changes.pop("data", {})},
            "model": {"preset": "detr2020", **TINY, **changes.pop("model", {})},
            "train": {"max_steps": 2, "batch_size": 4, **changes.pop("train", {})},
        }
    )


def test_boxes_follow_a_picture_that_is_mirrored_and_those_out_of_sight_are_padding():
    labels = torch.tensor([[3, 1, 2, NO_OBJECT]])
    corners = torch.tensor([[[0.9, 0, 1, 1], [0, 0, 0.2, 0.2], [0.4, 0.4, 0.6, 0.6], [0, 0, 0, 0]]])
    left_half_mirrored = torch.tensor([[[-0.5, 0.5], [1.0, 0.0]]])
    found, boxes = moved_boxes(labels, to_middles(corners), left_half_mirrored)
    assert found.tolist() == [[1, 2, NO_OBJECT, NO_OBJECT]]
    expected = torch.tensor([[0.6, 0, 1, 0.2], [0, 0.4, 0.2, 0.6]])
    torch.testing.assert_close(to_corners(boxes[0, :2]), expected)


@pytest.fixture(scope="module")
def prepared():
    return prepare(recipe(), torch.device("cpu"))


def test_nothing_moves_where_nothing_is_changed(prepared):
    batch = prepared.train.batch(np.arange(4))
    assert SetLoss(prepared.recipe).augmented(batch) is batch


def test_a_fresh_detector_sees_augmented_boxes_where_the_pixels_are():
    """A white square on black is found again by its pixels, wherever it went."""
    settings = recipe(data={"augment": {"flip": True, "flip_down": True, "zoom": 0.6, "crop": 3}})
    pixels = torch.zeros(16, 3, 60, 60, dtype=torch.uint8)
    pixels[:, :, 20:32, 24:42] = 255
    box = torch.tensor([24, 20, 42, 32]) / 60
    tensors = {
        "pixels": pixels,
        "labels": torch.tensor([[2, NO_OBJECT]]).expand(16, 2),
        "boxes": to_middles(torch.stack((box, torch.zeros(4))).expand(16, 2, 4)),
    }
    loss = SetLoss(settings)
    drawn = loss.augmentation.draw(range(16), 16)
    tensors |= {f"{DRAWN}{name}": x for name, x in drawn.items()}
    found = loss.augmented(Batch(tensors, tuple(range(16)), count=16))
    white = (found.pixels[:, 0] > 0.5).numpy()
    for i in range(16):
        rows, columns = np.flatnonzero(white[i].any(axis=1)), np.flatnonzero(white[i].any(axis=0))
        seen = np.array([columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]) / 60
        assert found.labels[i].tolist() == [2, NO_OBJECT]
        np.testing.assert_allclose(to_corners(found.boxes[i, 0]).numpy(), seen, atol=0.02)
    assert len({tuple(row) for row in found.boxes[:, 0].tolist()}) > 8


def test_columns_are_padded_and_say_middles(prepared):
    names = prepared.labels.names
    batch = prepared.train.batch(np.arange(40))
    assert batch.pixels.shape == (40, 3, 32, 32)
    for record, labels, boxes in zip(
        prepared.data.splits["train"], batch.labels, batch.boxes, strict=True
    ):
        n = len(record.labels)
        assert [names[i] for i in labels[:n]] == list(record.labels)
        assert (labels[n:] == NO_OBJECT).all()
        np.testing.assert_allclose(to_corners(boxes[:n]).numpy(), record.boxes, atol=1e-6)


def test_the_surest_come_first():
    logits = torch.tensor([[[[0.0, 2.0], [3.0, -1.0], [-4.0, -5.0]]]])
    middles = torch.tensor([[[[0.5, 0.5, 0.2, 0.4], [0.1, 0.5, 0.4, 0.2], [0.9, 0.9, 0.1, 0.1]]]])
    found = said(Detections(logits, middles), "sigmoid")
    assert found.labels.tolist() == [[0, 1, 0]]
    expected = torch.tensor([3.0, 2.0, -4.0]).sigmoid()
    np.testing.assert_allclose(found.scores[0], expected, rtol=1e-6)
    np.testing.assert_allclose(
        found.corners[0, 0], [0, 0.4, 0.3, 0.6], atol=1e-6
    )  # cut at the edge


def test_a_softmax_never_says_no_object():
    logits = torch.tensor([[[[0.0, 1.0, 9.0]]]])
    found = said(Detections(logits, torch.full((1, 1, 1, 4), 0.5)), "softmax")
    assert found.labels.tolist() == [[1]]
    assert found.scores[0, 0] < 0.01


@pytest.mark.parametrize("name", ["randaugment", "mixup", "cutmix"])
def test_changes_that_boxes_cannot_follow_are_refused(name):
    with pytest.raises(ConfigError, match=f"data.augment.{name} turns or mixes"):
        prepare(recipe(data={"augment": {name: 1}}), torch.device("cpu"))


def test_more_objects_than_queries_are_refused():
    with pytest.raises(ConfigError, match=r"scene \d+: 5 boxes, but model.n_queries=3"):
        prepare(recipe(model={"n_queries": 3}), torch.device("cpu"))


def test_labels_that_training_never_showed_are_refused():
    picture = ArrayPicture(np.zeros((4, 4, 3), np.uint8), "p")
    one = BoxedPicture(
        picture=picture, where="boxes.csv:3", boxes=np.zeros((1, 4), np.float32), labels=("stern",)
    )
    with pytest.raises(DataError, match=r"boxes.csv:3: unknown label 'stern'.*did you mean 'star'"):
        numbers_of(one, {"star": 0, "moon": 1})


def test_a_box_is_the_pixels_it_covers():
    (mask,) = box_masks(np.array([[0.25, 0.5, 0.75, 0.625]]), (2, 4))
    assert mask.shape == (16, 32)
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    assert (rows.tolist(), columns.tolist()) == ([8, 9], list(range(8, 24)))
    assert mask.sum() == 32
