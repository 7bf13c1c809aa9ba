"""Some heads find a word's subject, object, determiner or preposition better than an offset can.

Clark et al. (2019) asked of each head of BERT how often the word it looks at most is the one that
grammar ties to the word that asks, in both directions, beside the best fixed offset (*the word
after*). Here the encoder of a translator is asked, which was never told of grammar; the trees are
those of which the world ``sentences`` writes its sentences. A head and an offset are chosen on some
sentences and scored on others; what the head is ahead by must be no luck, in a bootstrap over
sentences. ``run`` takes a translator of your own, and ``trees`` a treebank in
CoNLL-U (its nsubj, obj, det and case).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from regard.core.errors import DataError
from regard.data.lines import read_lines
from regard.data.worlds.grammar import Grammar
from regard.data.worlds.phrases import Relation
from regard.data.worlds.stable_random import StableRandom
from regard.data.worlds.trees import write_relations
from regard.evaluation.attention import (
    ANTECEDENTS,
    HeadChoice,
    Links,
    Matrix,
    Watched,
    words_matrix,
)
from regard.lab.differences import Difference, difference
from regard.lab.result import Result, percent, unmet
from regard.lab.translators import opened_translator
from regard.tasks.translation_scores import SELF, word_ids
from regard.tasks.translator import Run
from regard.visual.matrix import matrix
from regard.visual.tables import Table

KINDS = ("subject", "object", "determiner", "preposition")
_UD = {"nsubj": "subject", "obj": "object", "det": "determiner", "case": "preposition"}
_LONGEST = 40
"""Words of a sentence of a treebank; longer ones are left out."""


class Tree(NamedTuple):
    """A sentence and the relations between its words."""

    words: tuple[str, ...]
    relations: tuple[Relation, ...]

    def links(self, kind: str, upward: bool) -> Links:
        """(who asks, what it should find): upward from what depends to what it depends on."""
        found = [(a, b) for one, a, b in self.relations if one == kind]
        return found if upward else [(b, a) for a, b in found]


class Seen(NamedTuple):
    """A sentence, and where each head looks in it."""

    tree: Tree
    weights: Mapping[Hashable, Matrix]


class _Found(NamedTuple):
    head: HeadChoice
    offset: float
    """Share that the best fixed offset finds."""
    upward: bool
    n: int
    """Relations of the kind on which both are scored."""
    ahead: Difference
    """Of a sentence: the share that the head finds, less that of the offset."""


def relations(
    *,
    run: Path | None = None,
    trees: Path | None = None,
    n_trees: int = 150,
    steps: int = 500,
    seed: int = 1,
) -> Result:
    """Every head's score for each relation; a ``run`` is looked at in place of a small training."""
    asked = opened_translator(run, steps, seed)
    every = read_trees(trees) if trees else own_trees(seed)
    known = [one for one in islice(every, 2 * n_trees) if asked.fits(*[" ".join(one.words)] * 2)]
    seen = [Seen(one, encoder_weights(asked, one.words)) for one in known]
    valid, test = seen[::2], seen[1::2]
    found = {kind: _found(kind, valid, test) for kind in KINDS}
    parts = {
        f"a head finds the {kind} better than an offset": one.ahead.positive
        for kind, one in found.items()
    }
    told = "; ".join(
        f"{kind} {percent(one.head.test)} ({percent(one.offset)})" for kind, one in found.items()
    )
    return Result(
        name="relations",
        verdict=all(parts.values()),
        finding=(
            "Right words found by the best head, and in brackets by the best fixed offset, on "
            f"{len(test)} sentences that chose neither: {told}. Better is what a bootstrap over "
            "these sentences says is no luck; it was one training." + unmet(parts)
        ),
        numbers={
            **{f"{kind}: best head": one.head.test for kind, one in found.items()},
            **{
                f"{kind}: the same weights shuffled": one.head.baseline
                for kind, one in found.items()
            },
            **{f"{kind}: fixed offset": one.offset for kind, one in found.items()},
            **{f"{kind}: head ahead by": one.ahead.mean for kind, one in found.items()},
            **{
                f"{kind}: head ahead by, 95 %": [one.ahead.low, one.ahead.high]
                for kind, one in found.items()
            },
            **{f"{kind}: which head": str(one.head.label) for kind, one in found.items()},
        },
        pictures=(_picture(found, test),),
        tables=(_table(found),),
    )


def _found(kind: str, valid: Sequence[Seen], test: Sequence[Seen]) -> _Found:
    """The head and the direction that are best on ``valid``, and how good they are on ``test``."""
    choices = []
    for upward in (True, False):
        asked, other = (_watched(kind, some, upward) for some in (valid, test))
        if not asked or not other:
            raise DataError(f"the sentences have no {kind} to look for; give more, or other trees")
        choice = ANTECEDENTS.chosen(asked, other)
        offset = best_offset([one.links for one in asked])
        rule = share_at(offset, [one.links for one in other])
        ahead = difference([_ahead(one, choice.label, offset) for one in other])
        n = sum(len(one.links) for one in other)
        choices.append(_Found(choice, rule, upward, n, ahead))
    return max(choices, key=lambda one: one.head.valid)


def _watched(kind: str, seen: Sequence[Seen], upward: bool) -> list[Watched]:
    both = [(one.tree.links(kind, upward), one.weights) for one in seen]
    return [Watched(weights, links) for links, weights in both if links]


def _ahead(sentence: Watched, label: Hashable, offset: int) -> float:
    """The share of the words of a sentence that a head finds, less that of an offset."""
    return ANTECEDENTS.by_head([sentence])[label] - share_at(offset, [sentence.links])


def fixed_offset(valid: Sequence[Links], test: Sequence[Links]) -> float:
    """The share on ``test`` of words that find theirs at the offset most frequent on ``valid``."""
    return share_at(best_offset(valid), test)


def best_offset(sentences: Sequence[Links]) -> int:
    """How far behind the word that asks the one that it should find stands most often."""
    offsets = Counter(there - here for links in sentences for here, there in links)
    (offset, _), *_ = offsets.most_common(1)
    return offset


def share_at(offset: int, sentences: Sequence[Links]) -> float:
    """The share of words that find theirs at an offset."""
    right = [
        (here, here + offset) in links
        for links in map(list, sentences)
        for here in dict.fromkeys(here for here, _ in links)
    ]
    return sum(right) / len(right)


def own_trees(seed: int) -> Iterator[Tree]:
    """Sentences of the world ``sentences`` with their relations, without end; none comes twice."""
    grammar, known = Grammar(StableRandom(seed)), set[str]()
    while True:
        pair, found = write_relations(*grammar.sentence())
        if found and pair.source not in known:
            known.add(pair.source)
            yield Tree(tuple(pair.source.split()), found)


def read_trees(path: Path) -> Iterator[Tree]:
    """The sentences of a CoNLL-U file that have one of our relations, in its words."""
    rows: list[list[str]] = []
    for line in (*read_lines(path), ""):
        if line.startswith("#"):
            continue
        if line.strip():
            rows.append(_cells(line, path))
            continue
        tree = _tree([row for row in rows if row[0].isdigit()], path)
        if tree.relations and len(tree.words) <= _LONGEST:
            yield tree
        rows = []


def _cells(line: str, path: Path) -> list[str]:
    cells = line.rstrip().split("\t")
    if len(cells) != 10:
        raise DataError(
            f"{path}: a line of CoNLL-U has 10 columns, found {len(cells)}: {line[:60]!r}; give a "
            "file such as en_ewt-ud-dev.conllu"
        )
    return cells


def _tree(rows: Sequence[Sequence[str]], path: Path) -> Tree:
    """A noun depends on its preposition here, so that the two ends of ``case`` change places."""
    found = []
    for number, _, _, _, _, _, head, name, _, _ in rows:
        kind, here, there = _UD.get(name.partition(":")[0]), int(number) - 1, int(head) - 1
        if kind and not 0 <= there < len(rows):
            raise DataError(f"{path}: word {number} depends on word {head}, which is not there")
        if kind:
            found.append((kind, *((there, here) if kind == "preposition" else (here, there))))
    return Tree(tuple(row[1] for row in rows), tuple(found))


def encoder_weights(run: Run, words: Sequence[str]) -> dict[Hashable, Matrix]:
    """Each head's weights between the words, (n, n), by "layer L head H"."""
    text = " ".join(words)
    layers = run.explain(text, text).attentions.get(SELF, ())
    if not layers:
        raise DataError(f"a {run.recipe.model.preset} has no self-attention in its encoder")
    seen = [*word_ids(run.tokenizers.source, text, words), None]  # the end token is no word
    return {
        f"layer {layer} head {head}": one
        for layer, heads in enumerate(layers)
        for head, one in enumerate(words_matrix(heads, seen, seen))
    }


def _picture(found: Mapping[str, _Found], test: Sequence[Seen]) -> str:
    """The score of every head for each relation, in the direction that was chosen."""
    scores = {
        kind: ANTECEDENTS.by_head(_watched(kind, test, one.upward)) for kind, one in found.items()
    }
    labels = list(next(iter(scores.values())))
    rows = [[*(of[label] for label in labels), found[kind].offset] for kind, of in scores.items()]
    columns = [*map(str, labels), "fixed offset"]
    return matrix(rows, list(scores), columns, title="Right words found, by head")


def _table(found: Mapping[str, _Found]) -> Table:
    header = ["Relation", "Best head", "From", "Head", "Shuffled", "Fixed offset", "Ahead", "Of"]
    rows = [
        (
            kind,
            str(one.head.label),
            "what depends" if one.upward else "what it depends on",
            *(f"{100 * x:.0f} %" for x in (one.head.test, one.head.baseline, one.offset)),
            str(one.ahead),
            str(one.n),
        )
        for kind, one in found.items()
    ]
    return Table("Chosen on one half, scored on the other", header, rows)
