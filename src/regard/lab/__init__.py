"""The lectures' claims as experiments: each a file in ``claims``, and a function here.

    from regard import lab

    lab.permutation()          # a notebook shows the verdict, the numbers and the picture

The first line of a file's docstring is its claim; ``THEMES`` has what is said beside it. Nothing
is imported before it is run.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from importlib import import_module
from importlib.resources import files
from inspect import signature
from typing import TYPE_CHECKING, Any, NamedTuple

from regard.core.errors import ConfigError
from regard.core.registry import did_you_mean

if TYPE_CHECKING:
    from regard.lab.result import Result


class Lesson(NamedTuple):
    """What is said of an experiment beside its claim, to somebody who has not met it."""

    why: str
    """Why the claim matters, in one sentence."""
    command: str
    """What to try: a command line that runs as it stands."""
    expect: str
    """What is seen then, in one sentence."""


THEMES: dict[str, dict[str, Lesson]] = {
    "What attention computes": {
        "walkthrough": Lesson(
            "Whoever has followed one example by hand can read every formula that comes later.",
            "regard lab walkthrough --set scores=[2.485,0,0.693,1.609]",
            "With scores of this size, the printed weights come out.",
        ),
        "vectorise": Lesson(
            "Attention is fast because its loop is a product of matrices: check it with a pencil.",
            "regard lab vectorise --set axis=0",
            "A softmax along the columns is not the loop any more.",
        ),
        "rows": Lesson(
            "Only because a row sums to 1 is the output an average that one can look at and read.",
            "regard lab rows --set axis=-2",
            "A softmax over the queries gives rows that do not sum to 1.",
        ),
        "scaling": Lesson(
            "Without the division wide models would look at one key only and stop learning.",
            "regard lab scaling --set divided=false",
            "The slope of the softmax goes to zero as the width grows.",
        ),
        "tastes": Lesson(
            "The dot product is the whole score: it says who suits whom, and can be learned.",
            "regard lab tastes --set product=false",
            "If users and films only add up, nobody's own taste is found.",
        ),
        "itself": Lesson(
            "It shows what the queries and keys of their own are for: to look elsewhere.",
            "regard lab itself --set projected=true",
            "Through random projections a token looks at itself no more than at others.",
        ),
        "parameterless": Lesson(
            "It separates what attention does from what is learned around it.",
            "regard lab parameterless --set frozen=true",
            "With the embedding frozen, nothing is learned.",
        ),
        "word2vec": Lesson(
            "Texts are many and translations few: what texts alone can teach comes for free.",
            "regard lab word2vec --set company=false",
            "Vectors of words in any order know nothing, and do worse than drawn ones.",
        ),
        "embedding": Lesson(
            "Every model begins with a lookup, and this is why nobody multiplies one-hot vectors.",
            "regard lab embedding --set one_hot=false",
            "Of inputs that are not one-hot, a lookup is not the product.",
        ),
        "vocabulary": Lesson(
            "The last layer is no new idea: a state asks, and the words are keys.",
            "regard lab vocabulary --set trained=false",
            "Before training no word is known by its neighbours.",
        ),
        "linear": Lesson(
            "It says why a Transformer needs feed-forward networks between its attentions.",
            "regard lab linear --set feed_forward=true",
            "A feed-forward network ends the superposition.",
        ),
        "slips": Lesson(
            "Some of what is printed fails at once, some trains and is quietly wrong.",
            "regard lab slips --set corrected=true",
            "With the formulas as they are meant, nothing follows.",
        ),
    },
    "The order of words": {
        "permutation": Lesson(
            "A model that cannot tell who loves whom must be told the order.",
            "regard lab permutation --set positions=sinusoidal",
            "With positions, every order gives other vectors.",
        ),
        "positions": Lesson(
            "All the order a Transformer knows of its source comes from these codes.",
            "regard lab positions --set task=sort",
            "Sorting needs no order, and is learned without positions as well.",
        ),
        "codes": Lesson(
            "A model knows order only through these numbers; here one sees what it is given.",
            "regard lab codes --set code=random",
            "Random rows tell positions apart, and have no neighbours.",
        ),
        "shift": Lesson(
            "Language cares that a word follows another, not at which number it stands.",
            "regard lab shift --set positions=none",
            "Without positions no head finds the word before.",
        ),
        "learned": Lesson(
            "The choice is about length and memory, not quality; and one seed can fool a test.",
            "regard lab learned --set beside=none",
            "Beside no positions at all, the learned ones win clearly.",
        ),
        "relative": Lesson(
            "It is the reason given for sinusoids: how far, not where, should count.",
            "regard lab relative --set projection=random",
            "Random W_q and W_k end what the sinusoids promise.",
        ),
        "extrapolation": Lesson(
            "What a code defines and what a model has learned to read are two things.",
            "regard lab extrapolation --set shortest=3 --set longest=5",
            "On lengths that training showed, the claim holds.",
        ),
        "future": Lesson(
            "Training on whole sentences at once works only if nobody can copy the answer.",
            "regard lab future --set masked=false",
            "Without the mask, predictions change with words that are still to be written.",
        ),
    },
    "Heads, and where they look": {
        "heads": Lesson(
            "It is why there are several heads of a small width, and not one of the whole width.",
            "regard lab heads --set ordered=false",
            "If nobody asks which word is which, one head is enough.",
        ),
        "eight": Lesson(
            "A number that everybody copies deserves to be measured.",
            "regard lab eight --set world=copy",
            "Copying needs one look at a time: there one head does as well as eight.",
        ),
        "context": Lesson(
            "One vector a word cannot serve two meanings; this is what encoders are used for.",
            "regard lab context --set attentive=false",
            "Where words see only themselves, both meanings keep one vector.",
        ),
        "alignment": Lesson(
            "Weights are shown as explanations; here they are scored against the truth.",
            "regard lab alignment --set pronouns=false",
            "For words that translate each other alone, the claim holds.",
        ),
        "pronoun": Lesson(
            "It is the lectures' picture of what a head does; here it is counted and put to work.",
            "regard lab pronoun --set steps=1",
            "Before training no pronoun comes out right, and no head is needed.",
        ),
        "relations": Lesson(
            "It is how one finds out what a head has learned that nobody told it.",
            "regard lab relations --set steps=1",
            "Before training the heads find about as much as their weights shuffled.",
        ),
        "hard": Lesson(
            "Looking at one place only is cheap, but has no derivative to learn from.",
            "regard lab hard --set baseline=false",
            "Without the baseline nothing calms the estimate.",
        ),
    },
    "What came before: recurrence": {
        "bottleneck": Lesson(
            "This is the problem that attention was invented for.",
            "regard lab bottleneck --set fixed_vector=false",
            "A first system that may look back falls no further than the others.",
        ),
        "gradients": Lesson(
            "What no gradient reaches is not learned.",
            "regard lab gradients --set small=2 --set large=2",
            "Recurrent weights that neither shrink nor stretch keep the gradient alive.",
        ),
        "reach": Lesson(
            "The shorter the way between two words, the easier it is to learn what ties them.",
            "regard lab reach --set window=1",
            "Attention that sees only its neighbours goes from place to place as well.",
        ),
        "recall": Lesson(
            "Conversations refer to what was said long ago.",
            "regard lab recall --set gaps=[3]",
            "With three symbols in between, all three networks answer.",
        ),
        "recurrence": Lesson(
            "It is the price of attention: what changes with every word is tracked by recurrence.",
            "regard lab recurrence --set stateful=false",
            "Where there is no state to track, attention is right at any length.",
        ),
        "forcing": Lesson(
            "All positions can be trained at once only because the right words are given.",
            "regard lab forcing --set share=0",
            "With no right words, both trainings are one.",
        ),
    },
    "Cost and size": {
        "loop": Lesson(
            "A GPU is fast where nothing waits for anything.",
            "regard lab loop --set feed_back=true",
            "If each query waits for the output before it, the product of matrices is wrong.",
        ),
        "parallel": Lesson(
            "It is why Transformers could be trained on so much more text than RNNs.",
            "regard lab parallel --set forced=false",
            "A Transformer that is trained on its own words must wait for them, too.",
        ),
        "memory": Lesson(
            "The square of the length was what kept contexts short.",
            "regard lab memory --set fused=false",
            "Without the fused kernel, both forms need the square.",
        ),
        "depth": Lesson(
            "Large models are deep: what lets a gradient through decides what can be built.",
            "regard lab depth --set residual=true",
            "With residual connections a stack of LSTMs learns at every depth as well.",
        ),
        "size": Lesson(
            "It says where a larger budget should go.",
            "regard lab size --set equal_cost=true",
            "For the same cost the small ones take more steps, and win.",
        ),
        "norm": Lesson(
            "The choice of norm decides whether a sentence depends on its neighbours in the batch.",
            "regard lab norm --set batch=16 --set unequal=false",
            "With large batches of equal lengths BatchNorm does as well.",
        ),
    },
    "Beyond sentences": {
        "graph": Lesson(
            "Words in a row are one graph among many: a mask is all that it takes.",
            "regard lab graph --set edges=false",
            "Without the edges every node reaches every other in one layer.",
        ),
        "convolution": Lesson(
            "What a convolution can do, attention can learn to do.",
            "regard lab convolution --set sharpness=4",
            "With soft scores the heads look beside their pixel, and the two differ.",
        ),
        "pixels": Lesson(
            "Grouping what is alike is what attention does before it has learned anything.",
            "regard lab pixels --set sharpness=0.1",
            "With soft scores all pixels become one grey.",
        ),
    },
}
"""Theme -> experiment -> what is said of it, in the order in which a course would show them."""
LESSONS = {name: one for lessons in THEMES.values() for name, one in lessons.items()}
NAMES = tuple(LESSONS)
MINUTES = 8
"""What all of them take on two CPU cores: 3 min 33 s for the first 29 (benchmarks/RESULTS.md), and
107 s of one core for those that came after."""


QUOTES = '"""'


def claim(name: str) -> str:
    """What an experiment puts to the test, in one line; read from its file, which is not run."""
    source = (files("regard.lab.claims") / f"{_known(name)}.py").read_text(encoding="utf-8")
    docstring, _, _ = source.removeprefix(QUOTES).partition(QUOTES)  # to parse it all takes longer
    return str(ast.literal_eval(f"{QUOTES}{docstring}{QUOTES}")).split("\n", 1)[0]


def experiment(name: str) -> Callable[..., Result]:
    """The function that runs an experiment; its result says which keywords were changed."""
    found: Callable[..., Result] = getattr(import_module(f"regard.lab.claims.{_known(name)}"), name)

    @wraps(found)
    def run(*args: Any, **keywords: Any) -> Result:
        given = signature(found).bind(*args, **keywords).arguments
        return replace(found(**given), changed=_changed(found, given))

    return run


def _changed(found: Callable[..., Result], given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of the keywords that are not what they are by default; a list is as good as a tuple."""
    defaults = signature(found).parameters
    return {
        key: value
        for key, value in given.items()
        if json.dumps(value, default=str) != json.dumps(defaults[key].default, default=str)
    }


def _known(name: str) -> str:
    if name not in NAMES:
        raise ConfigError(
            f"no experiment {name!r}{did_you_mean(name, NAMES)}; known: {', '.join(NAMES)}"
        )
    return name


def __getattr__(name: str) -> Any:
    if name not in NAMES:
        raise AttributeError(f"module 'regard.lab' has no attribute {name!r}")
    return experiment(name)


def __dir__() -> list[str]:
    return sorted([*globals(), *NAMES])
