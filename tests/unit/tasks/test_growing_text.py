"""The text of ever longer beginnings of ids, beside reading each from its start."""

import pytest
import tokenizers
from chats import byte_tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models

from regard.data.settings import DataSettings
from regard.tasks.generation import framing_for
from regard.tasks.growing_text import WINDOW, GrowingText
from regard.text.pretrained import PretrainedTokenizer
from regard.text.settings import TextSettings
from regard.text.specials import SpecialIds
from regard.text.tokenizer import Tokenizer

TEXTS = ["l'animal n'a pas dormi (du tout) !", "il dort, l'été. où ? à ça"] * 3
LINES = DataSettings(train="a.txt")


def pieces_tokenizer():
    """Words that begin with a mark for their space, and bytes for all else, as LLaMA's."""
    words = ["<e>", "▁", "▁the", "▁cat", "s", "a", *(f"<0x{byte:02X}>" for byte in range(256))]
    inner = tokenizers.Tokenizer(models.BPE({word: i for i, word in enumerate(words)}, []))
    inner.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    return inner


FOREIGN = SpecialIds(0, 0, 0, None)
KINDS = {
    "words": lambda: Tokenizer.train(TEXTS, TextSettings(kind="word")),
    "characters": lambda: Tokenizer.train(TEXTS, TextSettings(kind="char")),
    "byte pairs": lambda: Tokenizer.train(TEXTS, TextSettings(kind="bpe", vocab_size=300)),
    "bytes of others": lambda: PretrainedTokenizer(byte_tokenizer(), FOREIGN),
    "pieces of others": lambda: PretrainedTokenizer(pieces_tokenizer(), FOREIGN),
}


@pytest.fixture(scope="module", params=KINDS)
def framing(request):
    return framing_for(KINDS[request.param](), LINES)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(data=st.data())
def test_every_beginning_reads_as_it_does_from_its_start(framing, data):
    number = st.integers(0, framing.tokenizer.n_vocab - 1)
    prompt = data.draw(st.lists(number, max_size=40))
    sounds = framing.inside(data.draw(st.sampled_from(["", *TEXTS, "ça 🙂🙂🙂🙂🙂🙂🙂🙂 été"])))
    ids = [*data.draw(st.lists(number, max_size=20)), *sounds, *data.draw(st.lists(number))]
    growing = GrowingText(framing.say, prompt)
    for n in range(len(ids) + 1):
        assert growing(ids[:n]) == framing.said_after(prompt, ids[:n])


def test_a_text_twice_as_long_takes_twice_the_reading(framing):
    def n_read(n):
        counts = []
        growing = GrowingText(lambda ids: counts.append(len(ids)) or framing.say(ids), ids[:n])
        for k in range(n + 1):
            growing(ids[:k])
        return sum(counts)

    ids = framing.inside(" ".join(TEXTS * 40))[: 40 * WINDOW]
    assert len(ids) == 40 * WINDOW
    assert n_read(40 * WINDOW) < 2.1 * n_read(20 * WINDOW)
