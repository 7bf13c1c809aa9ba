"""Attention finds which words translate each other, and from "it" the word that "it" stands for.

A Transformer learns English to French, and the world of sentences knows the right answers. Of all
heads (and the mean of each layer) the best is chosen on one set of sentences and scored on another,
beside the same weights shuffled. Better than shuffled is not enough: a rule that is blind to the
words may be better too. For translations that rule is the word at the same place; for pronouns the
word so many places before, a number that is chosen on the first set as the head is. Training to the
end, as the recipe does, finds no more antecedents (seeds 1 and 2: 35 and 25 %).
"""

from __future__ import annotations

from typing import NamedTuple

from regard.evaluation.text_metrics import exact_match
from regard.lab.result import Result, percent
from regard.lab.translators import N_TRAIN, sentences_translator
from regard.tasks.look import Look
from regard.tasks.translation_scores import RULES, attention_scores
from regard.tasks.translator import Run
from regard.visual.matrix import matrix
from regard.visual.tables import Table

SENTENCES = tuple(
    f"the animal did not cross the street because it was too {why}" for why in ("tired", "wide")
)

ENDS = ("", "_shuffled", "_rule")
"""Of the names of scores: attention, chance, and a rule that is blind to the words."""


class _Scored(NamedTuple):
    """Which head is the best, its score on other sentences, and what stands beside it."""

    by: str
    attention: float
    shuffled: float
    rule: float
    """A rule that is blind to the words."""


def alignment(
    *, pronouns: bool = True, steps: int = 500, n_train: int = N_TRAIN, seed: int = 1
) -> Result:
    """Both scores; without ``pronouns`` the verdict is on the words that translate each other."""
    run, data = sentences_translator(steps, n_train, seed)
    valid, test = data.splits["valid"], data.splits["test"]
    found = attention_scores(run, valid, test)
    words, it = (
        _Scored(str(found[f"{key}_by"]), *(float(found[key + end]) for end in ENDS))
        for key in RULES
    )
    scored = {"alignment error rate": words, "antecedents found": it}
    aligned = words.attention < min(words.shuffled, words.rule)  # 0 is best
    resolved = it.attention > max(it.shuffled, it.rule)
    first, second = ("beats" if beaten else "does not beat" for beaten in (aligned, resolved))
    texts = run.translate([pair.source for pair in test[:200]])
    return Result(
        name="alignment",
        verdict=aligned and (resolved or not pronouns),
        finding=(
            f"Linking words, attention {first} the rule that takes the word at the same place "
            f"(error rate {words.attention:.2f}; rule {words.rule:.2f}, shuffled "
            f"{words.shuffled:.2f}). From pronouns, the best head {second} the rule that takes the "
            f"word a fixed number of places before ({percent(it.attention)} found; rule "
            f"{percent(it.rule)}, shuffled {percent(it.shuffled)})."
        ),
        numbers={
            "exact match": exact_match(texts, [pair.target for pair in test[:200]]),
            **{f"{n}: {key}": x for n, one in scored.items() for key, x in one._asdict().items()},
        },
        pictures=(_translating(run, words.by), _standing_for(run, it.by)),
        tables=(
            Table(
                "Chosen on one set, scored on another",
                ["", "Attention", "Shuffled", "Blind rule", "Where"],
                [(n, *(f"{x:.2f}" for x in one[1:]), one.by) for n, one in scored.items()],
            ),
        ),
    )


def _translating(run: Run, by: str) -> str:
    """The chosen cross-attention while the lectures' sentence is translated."""
    look = run.explain(SENTENCES[0])
    tokens = look.target_tokens, look.source_tokens
    return matrix(_weights(look, by), *tokens, title=f"Writing French: {by}")


def _standing_for(run: Run, by: str) -> str:
    """Where the chosen self-attention looks from "it", in both of the lectures' sentences."""
    looks = [run.explain(sentence) for sentence in SENTENCES]
    *same, tired, end = looks[0].source_tokens
    wide = looks[1].source_tokens[-2]
    return matrix(
        [_weights(look, by)[same.index("it")] for look in looks],
        [f"it … {tired}", f"it … {wide}"],
        [*same, f"{tired} / {wide}", end],
        title=f"Reading English: {by}",
    )


def _weights(look: Look, by: str) -> list[list[float]]:
    """(T, S) of a label such as "encoder.self layer 1 head 0" or "encoder.self layer 1 mean"."""
    name, _, layer, *which = by.split()
    heads = look.weights(name, int(layer))  # (H, T, S)
    chosen = heads.mean(axis=0) if which == ["mean"] else heads[int(which[-1])]
    return chosen.tolist()
