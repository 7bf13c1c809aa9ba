import numpy as np
import pytest

from regard.core.errors import CheckpointError, DataError
from regard.data.language import Tape, laid, spans, window_stream
from regard.text.settings import TextSettings
from regard.text.tokenizer import Tokenizer


def tape(n=100, max_len=7, seed=3):
    return Tape(np.arange(n, dtype=np.int32), max_len, seed)


def stream(batch_tokens=21, **of_tape):
    return window_stream(tape(**of_tape), batch_tokens=batch_tokens)


def epoch_of(some):
    epoch = some.epoch
    batches = []
    while some.epoch == epoch:
        batches.append(some.next())
    return batches


def test_texts_lie_end_to_end_with_the_end_token_after_each():
    texts = ["a b", "", "b"]
    words = Tokenizer.train(texts, TextSettings(kind="word"))
    a, b = words.encode("a b")
    end = words.specials.end
    assert laid(texts, words, opening=(end,)).tolist() == [end, a, b, end, end, b, end]
    assert laid(texts, words, opening=(), closed=False).tolist() == [a, b, end, end, b]
    assert laid([], words, opening=(end,), closed=False).tolist() == [end]


def test_windows_are_runs_of_the_text_and_inputs_and_targets_are_shifted_by_one():
    for batch in epoch_of(stream()):
        assert batch.target.shape == (3, 8)
        assert batch.count == 21
        for row, number in zip(batch.target.tolist(), batch.numbers, strict=True):
            assert row == list(range(number, number + 8))
        assert (batch.target_out - batch.target_in == 1).all()


def test_an_epoch_has_all_windows_from_its_offset_on_but_those_that_fill_no_batch():
    some = stream()
    for _ in range(20):
        starts = sorted(n for batch in epoch_of(some) for n in batch.numbers)
        offset = min(starts) % 7
        possible = set(range(offset, 100 - 7, 7))
        assert set(starts) <= possible
        assert len(starts) == len(set(starts)) == len(possible) // 3 * 3


def test_epochs_begin_elsewhere_and_come_in_another_order():
    some = stream()
    epochs = [[batch.numbers for batch in epoch_of(some)] for _ in range(30)]
    assert {numbers[0][0] % 7 for numbers in epochs} == set(range(7))
    assert sorted(epochs[0]) != epochs[0]


def test_the_plan_depends_on_the_seed_and_the_epoch_only():
    one, other, third = stream(), stream(), stream(seed=4)
    first = [batch.numbers for batch in epoch_of(one)]
    assert first == [batch.numbers for batch in epoch_of(other)]
    assert first != [batch.numbers for batch in epoch_of(third)]
    offsets = [[tape(seed=s).of_epoch(e).target.starts[0] for e in range(9)] for s in (3, 4)]
    assert offsets[0] != offsets[1]


@pytest.mark.parametrize("n_before", [0, 1, 4, 9])
def test_a_restored_stream_goes_on_exactly(n_before):
    one, other = stream(), stream()
    for _ in range(n_before):
        one.next()
    other.restore(one.state())
    for _ in range(10):
        a, b = one.next(), other.next()
        assert a.numbers == b.numbers
        assert (a.target == b.target).all()
    assert one.state() == other.state()


@pytest.mark.parametrize(
    "changes", [{"n": 101}, {"max_len": 6}, {"seed": 5}, {"batch_tokens": 14}], ids=str
)
def test_a_state_of_other_data_or_settings_is_refused(changes):
    with pytest.raises(CheckpointError, match="not what it was|cannot go on"):
        stream(**changes).restore(stream().state())


@pytest.mark.parametrize("n", [8, 9, 14, 15, 16, 22])
def test_short_texts_give_what_windows_they_have_in_every_epoch(n):
    some = stream(n=n, batch_tokens=700)
    shapes = {tuple(batch.target.shape) for _ in range(30) for batch in epoch_of(some)}
    assert len(shapes) == 1
    assert shapes.pop()[1] == 8


def test_a_text_shorter_than_a_window_is_refused():
    with pytest.raises(DataError, match=r"7 tokens .*max_len \+ 1 = 8; give more text, or lower"):
        tape(n=7)


def test_a_batch_has_at_least_one_window():
    assert stream(batch_tokens=2).next().target.shape == (1, 8)


@pytest.mark.parametrize(("max_len", "stride"), [(5, 5), (5, 2), (5, 1), (40, 7)])
@pytest.mark.parametrize("n", [2, 5, 6, 7, 23, 24])
def test_spans_predict_every_id_once_with_enough_before_it(n, max_len, stride):
    seen = []
    for span in spans(n, max_len, stride):
        assert 0 < span.end - span.begin <= max_len
        for at in range(span.first, span.end + 1):
            seen.append(at)
            assert at - span.begin >= min(at, max_len - stride + 1)
        assert span.shape == (span.end - span.begin, span.end + 1 - span.first)
    assert seen == list(range(1, n))


def test_there_is_nothing_to_predict_of_one_id():
    assert list(spans(1, 5, 5)) == []
