import json

import pytest

from regard.core.errors import CheckpointError
from regard.data.examples import BpeDropoutTexts, IdTable, encode_table
from regard.data.pair_batches import packed_stream, padded_stream
from regard.data.records import Pair
from regard.text.settings import TextSettings
from regard.text.tokenizer import Tokenizer

PAIRS = [
    Pair("the animal did not cross the street", "l'animal n'a pas traversé la rue"),
    Pair("the street was too wide", "la rue était trop large"),
    Pair("it was tired", "il était fatigué"),
] * 8
SOURCE = Tokenizer.train([pair.source for pair in PAIRS], TextSettings(vocab_size=300))
TARGET = Tokenizer.train([pair.target for pair in PAIRS], TextSettings(vocab_size=300))
PLAIN = encode_table(PAIRS, SOURCE, TARGET)


def resegmented(share=0.3, seed=0, max_len=60):
    return BpeDropoutTexts(PAIRS, PLAIN, (SOURCE, TARGET), share=share, seed=seed, max_len=max_len)


@pytest.fixture(scope="module")
def texts():
    return resegmented()


def test_each_epoch_spells_the_pairs_in_other_pieces(texts):
    assert len(texts) == len(PAIRS)
    epochs = [list(texts.of_epoch(epoch)) for epoch in range(3)]
    for epoch in epochs:
        for example, pair in zip(epoch, PAIRS, strict=True):
            assert SOURCE.decode(example.source) == pair.source
            assert TARGET.decode(example.target) == pair.target
    assert epochs[0] != epochs[1] != epochs[2]
    assert list(texts.of_epoch(0)) == epochs[0]


def test_without_dropout_every_epoch_is_the_plain_one():
    plain = resegmented(share=0.0)
    assert [list(plain.of_epoch(epoch)) for epoch in (0, 5)] == [list(PLAIN)] * 2


@pytest.mark.parametrize(("max_len", "longest"), [(PLAIN.longest, PLAIN.longest), (200, 64)])
def test_no_text_outgrows_the_model_or_the_block(max_len, longest):
    texts = resegmented(share=0.9, max_len=max_len)
    assert texts.longest == longest
    assert max(texts.of_epoch(epoch).longest for epoch in range(3)) <= longest


def test_a_truncated_text_stays_truncated():
    room = PLAIN.longest - 3
    cut = IdTable(PLAIN.source.cut(room), PLAIN.target.cut(room))
    texts = BpeDropoutTexts(PAIRS, cut, (SOURCE, TARGET), share=1.0, seed=0, max_len=room + 1)
    assert max(len(one.target) for one in texts.of_epoch(0)) == room


@pytest.mark.parametrize("kind", [padded_stream, packed_stream])
def test_a_restored_stream_of_resegmented_texts_goes_on_exactly(texts, kind):
    def stream(some):
        return kind(some, batch_tokens=128, seed=3)

    whole = stream(texts)
    places, batches = [], []
    while whole.epoch < 3:
        places.append(whole.state())
        batches.append(whole.next())
    cut = len(batches) // 2
    resumed = stream(resegmented())
    resumed.restore(json.loads(json.dumps(places[cut])))
    rest = [resumed.next() for _ in batches[cut:]]
    for one, other in zip(rest, batches[cut:], strict=True):
        assert one.numbers == other.numbers
        assert one.target_out.tolist() == other.target_out.tolist()
    assert resumed.state() == whole.state()


def test_another_share_is_other_data(texts):
    state = padded_stream(texts, batch_tokens=128, seed=3).state()
    with pytest.raises(CheckpointError, match="data is not what it was"):
        padded_stream(PLAIN, batch_tokens=128, seed=3).restore(state)
    with pytest.raises(CheckpointError, match="data is not what it was"):
        padded_stream(resegmented(share=0.4), batch_tokens=128, seed=3).restore(state)


def test_packed_batches_keep_their_shapes_in_every_epoch(texts):
    stream = packed_stream(texts, batch_tokens=256, seed=0)
    shapes = set()
    while stream.epoch < 4:
        batch = stream.next()
        shapes.add(
            (batch.source.shape, batch.target_out.shape, batch.spans.shape, batch.sizes["block"])
        )
        assert max((batch.target_positions + 1).tolist()) <= batch.sizes["longest"]
    assert len(shapes) == 1
