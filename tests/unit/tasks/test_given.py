"""What is not text is refused in words, whatever a run is asked."""

import pytest
from looked_at import encoder_run, writer_run
from systems import untrained

from regard.core.errors import ConfigError, DataError

MANY = "expected a text or a list of texts, found "
CALLS = {
    "generate nothing": (lambda: writer_run().generate(None), f"{MANY}nothing"),
    "generate a number": (lambda: writer_run().generate([3]), f"{MANY}int: 3"),
    "stream": (lambda: writer_run().stream(3), "expected a text, found int: 3"),
    "score": (lambda: writer_run().score(None), f"{MANY}nothing"),
    "perplexity": (lambda: writer_run().perplexity(3), f"{MANY}int: 3"),
    "choose after": (lambda: writer_run().choose(3, ["a", "b"]), "expected a text, found int: 3"),
    "choose among letters": (
        lambda: writer_run().choose("a", "bc"),
        "expected a list of texts, found one text: 'bc'; put it in a list",
    ),
    "choose the same": (
        lambda: writer_run().choose("a", ["b", "b", "c"]),
        r"two options or more, all different: \['b', 'b', 'c'\]",
    ),
    "classify": (lambda: encoder_run("classification").classify(3), f"{MANY}int: 3"),
    "classify a pair": (
        lambda: encoder_run("classification", pairs=True).classify(3),
        "expected two texts, but found 3",
    ),
    "embed": (lambda: encoder_run("similarity").embed(3), f"{MANY}int: 3"),
    "explain a list": (
        lambda: untrained("transformer").explain("a b", target=["a"]),
        r"expected a text, found list: \['a'\]",
    ),
    "fill": (lambda: encoder_run("masked").fill(3), "expected a text, found int: 3"),
    "nearest among letters": (
        lambda: encoder_run("similarity").nearest("a", "abc"),
        "expected a list of texts, found one text: 'abc'",
    ),
}


@pytest.mark.parametrize("asked", CALLS)
def test_what_is_no_text_is_refused(asked):
    call, why = CALLS[asked]
    with pytest.raises(DataError, match=why):
        call()


@pytest.mark.parametrize("n", [0, -1])
def test_the_nearest_are_at_least_one(n):
    with pytest.raises(ConfigError, match=f"n={n} texts were asked for; ask for at least 1"):
        encoder_run("similarity").nearest("a", ["a", "b"], n)


def test_any_list_of_texts_will_do():
    run = encoder_run("similarity")
    assert run.nearest("a", (text for text in ["b", "a"]), 1)[0].text == "a"


def test_no_translation_is_not_one():
    run = untrained("transformer")
    with pytest.raises(ConfigError, match="n_best=0 must be at least 1"):
        run.translate("a b", n_best=0)
    assert run.translate("a b", n_best=1) == [run.translate("a b")]
