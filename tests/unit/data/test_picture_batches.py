"""Batches of pictures."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from regard.data.picture_batches import PictureTable, picture_table
from regard.data.picture_records import LabelledPicture
from regard.data.pictures import ArrayPicture


def table(n=7):
    pixels = np.arange(3 * 2 * 2 * 3, dtype=np.uint8).reshape(3, 2, 2, 3)
    return PictureTable(
        pixels,
        np.arange(n) % 3,
        {"labels": np.arange(n), "target": [np.arange(1 + i % 3) for i in range(n)]},
        counts="target",
    )


def test_rows_show_their_pictures():
    one = table()
    batch = one.batch(np.array([4, 2]))
    assert torch.equal(batch.pixels[0], torch.from_numpy(one.pixels[1]).permute(2, 0, 1))
    assert batch.labels.tolist() == [4, 2]
    assert batch.target.tolist() == [[0, 1, 0], [0, 1, 2]]
    assert batch.target_lengths.tolist() == [2, 3]
    assert batch.count == 1 + 2
    assert batch.numbers == (4, 2)


def test_every_batch_has_the_same_size_and_no_row_comes_twice_in_an_epoch():
    stream = table(7).stream(batch_size=3, seed=1)
    seen = [stream.next().numbers for _ in range(4)]
    assert [*map(len, seen)] == [3] * 4
    assert len({*seen[0], *seen[1]}) == 6
    assert stream.epoch == 2


def test_fewer_rows_than_a_batch_are_one_batch():
    assert len(table(2).stream(batch_size=3, seed=1).next().numbers) == 2


def test_a_stream_goes_on_where_it_was():
    one, other = (table().stream(batch_size=2, seed=3) for _ in range(2))
    for _ in range(4):
        one.next()
    other.restore(one.state())
    assert one.next().numbers == other.next().numbers


def test_other_pixels_have_another_digest():
    one, other = table(), table()
    assert one.digest == other.digest
    other.pixels[0, 0, 0, 0] += 1
    assert table().digest != PictureTable(other.pixels, other.pictures, other.columns).digest


@pytest.mark.parametrize("cached", [False, True])
def test_a_picture_of_several_rows_is_decoded_once(tmp_path, cached):
    shown = [ArrayPicture(np.full((4, 4, 3), i, np.uint8), str(i)) for i in range(2)]
    records = [LabelledPicture(picture=shown[i], label="x") for i in (1, 0, 1)]
    found = picture_table(records, 2, "crop", tmp_path if cached else None, {})
    assert found.pixels.shape == (2, 2, 2, 3)
    assert found.batch(np.arange(3)).pixels[:, 0, 0, 0].tolist() == [1, 0, 1]


def test_shared_pictures_come_once_with_all_that_is_asked_of_them():
    one = replace(table(8), shared=True, counts="")
    stream = one.stream(batch_size=2, seed=3)
    for _ in range(3):
        batch = stream.next()
        assert len(batch.pixels) == 2
        rows = np.array(batch.numbers)
        shown = {*one.pictures[rows].tolist()}
        assert {*rows.tolist()} == {i for i in range(8) if one.pictures[i] in shown}
        assert batch.count == len(rows)
        own = one.pixels[one.pictures[rows]].transpose(0, 3, 1, 2)
        assert np.array_equal(batch.pixels[batch.pictures].numpy(), own)
    (whole,) = one.ordered(9)
    assert whole.numbers == tuple(range(8))
    assert len(whole.pixels) == 3


def test_a_row_may_have_several_sequences_of_which_the_longest_come_first():
    several = [tuple(np.arange(2 + i) for i in range(n)) for n in (2, 1, 3)]
    one = PictureTable(table().pixels, np.arange(3), {"target": several}, counts="target")
    batch = one.batch(np.array([2, 0]))
    assert len(batch.pixels) == 2
    assert batch.target_of.tolist() == [0, 0, 1, 0, 1]
    assert batch.target_lengths.tolist() == [4, 3, 3, 2, 2]
    assert batch.target[0].tolist() == [0, 1, 2, 3]
    assert batch.count == 1 + 2 + 3 + 1 + 2
    moved = [several[0] + several[1], (), several[2]]
    assert one.digest != PictureTable(one.pixels, one.pictures, {"target": moved}).digest
