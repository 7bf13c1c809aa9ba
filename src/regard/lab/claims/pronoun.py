"""From "it" one head looks at the animal and another at "tired", and the translation needs them.

In French *it* is *il* or *elle*, and only what it stands for tells which: the animal if it was too
tired, the street if it was too wide. A small Transformer learns that from sentences with *it*, and
must get the pronouns of others right: how often it does is told. For each head of its encoder: how
often, of all words, it looks most from *it* at the word that *it* stands for, and at the adjective
that tells which; the best heads are chosen on some sentences and scored on others. Looking is not
needing: so each head is taken away, and what that costs the probability of the right pronoun is
measured. A rule that is blind to the words stands beside it. ``run`` takes a translator that
learned all kinds of sentences: ``regard train transformer``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

from regard.core.errors import DataError
from regard.data.records import Pair
from regard.data.splits import load_records
from regard.data.worlds.sentences import build_sentences
from regard.evaluation.attention import ANTECEDENTS, HeadChoice, Matrix, Watched
from regard.lab.claims.alignment import SENTENCES
from regard.lab.claims.relations import fixed_offset
from regard.lab.result import Result, percent, unmet
from regard.lab.translators import translator
from regard.tasks.base import TASKS
from regard.tasks.translation_scores import SELF, watched_words
from regard.tasks.translator import Run
from regard.visual.charts import bars
from regard.visual.matrix import matrix
from regard.visual.tables import Table

Links = tuple[tuple[int, int], ...]
MOST = 0.5
"""A head looks at something if it does so in more than half of the sentences."""
NEEDED = 0.05
"""So much less probable is the right pronoun without a head that is needed."""
LEARNED = 0.9
"""The share of right pronouns from which a translator has learned them; a coin has half."""
WHAT = ("what it stands for", "the adjective")


def pronoun(
    *,
    run: Path | None = None,
    steps: int = 500,
    n_train: int = 40_000,
    n_ablated: int = 24,
    seed: int = 1,
) -> Result:
    """Where heads look from *it*, and what ``n_ablated`` sentences lose without each of them.

    Of ``n_train`` sentences those with *it* are learned, about a fifth. A ``run`` on the world
    ``sentences`` is looked at in place of a small training.
    """
    asked, known = _opened(run, steps, n_train, seed)
    pairs = [one for one in known if stands_for(one)]
    # The two sentences of a minimal pair stay together: neither half knows the other's words.
    valid, test = ([one for i, one in enumerate(pairs) if i // 2 % 2 == half] for half in (0, 1))
    links = {WHAT[0]: antecedent, WHAT[1]: adjective}
    chosen = {what: _chosen(asked, valid, test, of) for what, of in links.items()}
    rules = {
        what: fixed_offset(*([of(one) for one in half] for half in (valid, test)))
        for what, of in links.items()
    }
    right = right_pronouns(asked, test)
    costs = ablation_costs(asked, test[:n_ablated])
    lost = {what: costs[str(one.label)] for what, one in chosen.items()}
    parts = {
        "pronouns come out right": right > LEARNED,
        **{f"a head looks at {what}": one.test > MOST for what, one in chosen.items()},
        "they are two heads": len({one.label for one in chosen.values()}) == 2,
        **{f"the head that looks at {what} is needed": lost[what] > NEEDED for what in lost},
    }
    worst = max(costs, key=costs.__getitem__)
    told = "; ".join(
        f"at {what} in {percent(one.test)} ({one.label}; a fixed offset {percent(rules[what])}, "
        f"shuffled {percent(one.baseline)}); without it the right pronoun loses {lost[what]:.3f}"
        for what, one in chosen.items()
    )
    return Result(
        name="pronoun",
        verdict=all(parts.values()),
        finding=(
            f"Of the pronouns of {len(test)} held-out sentences {percent(right)} come out right. "
            f"From “it”, the best head looks {told}. The head whose loss costs most is {worst} "
            f"({costs[worst]:.3f})." + unmet(parts)
        ),
        numbers={
            "right pronouns": right,
            "held-out sentences": len(test),
            **{f"looks at {what}": one.test for what, one in chosen.items()},
            **{f"looks at {what}, shuffled": one.baseline for what, one in chosen.items()},
            **{f"a fixed offset finds {what}": share for what, share in rules.items()},
            **{f"cost of its head: {what}": cost for what, cost in lost.items()},
            **{f"cost of {label}": cost for label, cost in costs.items()},
        },
        pictures=(
            *(_looks(asked, sentence) for sentence in SENTENCES),
            bars(
                {label: max(0.0, cost) for label, cost in costs.items()},
                title="What “il” or “elle” loses without a head",
                digits=3,
            ),
        ),
        tables=(_table(chosen, rules, lost),),
    )


def _opened(run: Path | None, steps: int, n_train: int, seed: int) -> tuple[Run, Sequence[Pair]]:
    """A translator, and sentences with pronouns that it has not seen."""
    if run is None:
        return _small_translator(steps, n_train, seed)
    found: Run = TASKS["translation"].load(run)
    splits = load_records(found.recipe.data, "pair").splits
    if "pronouns" not in splits or found.recipe.data.direction != "en-fr":
        raise DataError(
            f"{run} is no run from English to French in the world sentences, whose pronouns are "
            "known; train one with `regard train transformer`"
        )
    return found, splits["pronouns"]


def _small_translator(steps: int, n_train: int, seed: int) -> tuple[Run, Sequence[Pair]]:
    """One that learns the sentences of the world in which *it* stands for something."""
    world = build_sentences("en-fr", n_train=n_train)
    learned = [f"{one.source}\t{one.target}" for one in world["train"] if stands_for(one)]
    small = ("d_model=64", "d_ff=128", "lr=4e-3", "batch_tokens=512")
    with TemporaryDirectory() as folder:
        file = Path(folder) / "it.tsv"
        file.write_text("\n".join(learned), encoding="utf-8")
        files = ("data.world=null", f"data.train={file}")
        run, _ = translator("transformer", *small, *files, f"max_steps={steps}", f"seed={seed}")
    return run, world["pronouns"]


def stands_for(pair: Pair) -> bool:
    """Whether it is known what an *it* of the source stands for."""
    return bool(pair.antecedents) and "it" in words(pair)


def right_pronouns(run: Run, pairs: Sequence[Pair]) -> float:
    """How often the right pronoun is the most probable word, those before it being given."""
    judged = run.token_scores([one.source for one in pairs], [one.target for one in pairs])
    return fmean(
        bool(one.right[pronoun_step(run, pair)]) for pair, one in zip(pairs, judged, strict=True)
    )


def pronoun_step(run: Run, pair: Pair) -> int:
    """Which token of the target is its pronoun."""
    assert pair.target_antecedents, "the world knows what its pronouns stand for"
    return run.tokenizers.target.word_ids(pair.target).index(pair.target_antecedents[0][0])


def words(pair: Pair) -> list[str]:
    """Of the source."""
    return pair.source.split()


def antecedent(pair: Pair) -> Links:
    """(pronoun, the word it stands for)."""
    return tuple(pair.antecedents or ())


def adjective(pair: Pair) -> Links:
    """(pronoun, the adjective that is said of it), the last word of a minimal pair's sentence."""
    return tuple((here, len(words(pair)) - 1) for here, _ in antecedent(pair))


def _chosen(
    run: Run, valid: Sequence[Pair], test: Sequence[Pair], links: Callable[[Pair], Links]
) -> HeadChoice:
    """The head that is best on ``valid``, by its label; means of layers are no heads."""
    halves = []
    for half in (valid, test):
        seen = watched_words(run, half, SELF, [links(pair) for pair in half])
        halves.append([Watched(_heads(one.weights), one.links) for one in seen])
    return ANTECEDENTS.chosen(*halves)


def _heads(weights: Mapping[Hashable, Matrix]) -> dict[Hashable, Matrix]:
    labelled = {str(label).removeprefix(f"{SELF} "): one for label, one in weights.items()}
    return {label: one for label, one in labelled.items() if "head" in label}


def ablation_costs(run: Run, pairs: Sequence[Pair]) -> dict[str, float]:
    """Head of the encoder -> what the right pronoun's probability loses without it, on average.

    Each word before the pronoun is given as it should be.
    """
    costs = defaultdict[str, list[float]](list)
    for pair in pairs:
        found = run.importance(pair.source, pronoun_step(run, pair), target=pair.target)
        for one in found.heads:
            if one.attention == SELF:
                label = f"layer {one.layer} head {one.head}"
                costs[label].append(found.probability - one.without)
    return {label: fmean(some) for label, some in costs.items()}


def _looks(run: Run, sentence: str) -> str:
    """Where every head of the encoder looks from *it*."""
    look = run.explain(sentence)
    here = look.source_tokens.index("it")
    rows = {
        f"layer {layer} head {head}": one[here].tolist()
        for layer, heads in enumerate(look.attentions[SELF])
        for head, one in enumerate(heads)
    }
    told = f"From “it” (too {look.source_tokens[-2]})"
    return matrix(list(rows.values()), list(rows), look.source_tokens, title=told)


def _table(
    chosen: Mapping[str, HeadChoice], rules: Mapping[str, float], lost: Mapping[str, float]
) -> Table:
    header = ["From “it” to", "Head", "Looks there", "Fixed offset", "Cost without it"]
    rows = [
        (
            what,
            str(one.label),
            *(f"{100 * x:.0f} %" for x in (one.test, rules[what])),
            f"{lost[what]:+.3f}".replace("-", "−"),
        )
        for what, one in chosen.items()
    ]
    return Table("Chosen on one half, scored on the other", header, rows)
