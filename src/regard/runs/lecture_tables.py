"""The lectures' two tables of results as data: their rows, what was published, what is claimed.

Published figures are those that the lecture prints: BLEU on newstest2014 of models that were
trained on WMT 2014, and their training FLOPs; log-perplexity and ROUGE-L on WikiSum. Whatever is
trained here has other data, so columns stand side by side and are not to be subtracted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from regard.core.errors import ConfigError
from regard.core.registry import did_you_mean

Figures = Mapping[str, float]
"""Published numbers by name: of a metric, or ``flops``."""
ANY = ""
"""Where figures do not depend on the languages."""

SIZES = ("tiny", "small", "base")
"""Scales of a table: which size of its preset each row has."""

SHORTEST = 100
"""Tokens that a row reads and writes at least, however small the table: summaries are whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LectureRow:
    """A row: a system that is trained, one that goes on from another row's, or an ensemble."""

    key: str
    """Its name in files and folders."""
    title: str
    """As the lecture prints it."""
    preset: str = ""
    sizes: Mapping[str, str] = field(default_factory=lambda: {size: size for size in SIZES})
    """Of the preset, by the scale of the table."""
    model: Mapping[str, Any] = field(default_factory=dict)
    train: Mapping[str, Any] = field(default_factory=dict)
    decode: Mapping[str, Any] = field(default_factory=dict)
    rate: float = 1.0
    """Where the search of its learning rate begins: so many times the recipe's, which is that of a
    Transformer. A search that begins beside the best rate is shorter; these are what the valid
    sets of ``multi30k-en-de`` and ``documents-1100`` have chosen before."""
    max_len: int | None = None
    """Tokens that the paper's system reads; shorter in a smaller table."""
    follows: str | None = None
    """The row whose runs it starts from (``train.init``)."""
    ensemble_of: str | None = None
    """The row whose runs it averages."""
    published: Mapping[str, Figures] = field(default_factory=dict)
    """By direction, such as en-de."""

    @property
    def kind(self) -> str:
        """``single``, or ``ensemble``."""
        return "single" if self.ensemble_of is None else "ensemble"


@dataclass(frozen=True, slots=True)
class TableClaim:
    """What the lecture reads off its table."""

    text: str
    kind: Literal["better", "longer", "cheaper", "ensembles"]
    """``better``: the first row has a better score than the second. ``longer``: the same, where the
    first has read more of some test document than the second. ``cheaper``: the first row
    came to the score of the best other system, which is none of ``rows``, at a smaller cost.
    ``ensembles``: each is better than the row that it averages."""
    rows: tuple[str, ...] = ()

    @property
    def needed(self) -> tuple[str, ...]:
        """Rows without which it cannot be told."""
        return self.rows[:1] if self.kind == "cheaper" else self.rows


@dataclass(frozen=True, slots=True, kw_only=True)
class LectureTable:
    """One of the tables."""

    name: str
    task: str
    rows: tuple[LectureRow, ...]
    metrics: tuple[str, ...]
    """Scores that are shown; rows are ranked by the first, a metric of texts of which more is
    better, and their differences tested by it."""
    where: str
    """What the published figures were measured on."""
    claims: tuple[TableClaim, ...]
    recipe: str
    """Whose settings of training a built-in world is learned with."""
    data: tuple[str, ...]
    """Recipes that are used where none are named."""
    quick: tuple[str, ...]
    """World and settings of the small table."""
    quick_budget: str
    records: str = "pair"
    """What a line of its data is, as readers name it."""
    directed: bool = True
    """Whether published figures are of pairs of languages."""
    shorter: Mapping[str, int] = field(default_factory=dict)
    """By the scale: what ``max_len`` is divided by."""
    fewer_experts: Mapping[str, int] = field(default_factory=dict)
    """By the scale: what the number of experts is divided by."""
    differences: str = ""
    """How the models differ from the published ones, other than in size."""


_BIG = {"tiny": "small", "small": "base", "base": "big"}
_PRE_NORM = {"norm_first": True}
_NEAR = {"positions": "rotary", "windows": ("local_m", "global"), "half_width": 4}
"""Every other layer sees the four words before each: without, a decoder alone does not tell the
people of a document apart (see the recipe documents-4000)."""
_COMPRESSED = {**_NEAR, "windows": ("local_m", "local_m", "compressed", "local_m", "compressed")}
"""Four words in place of the paper's blocks of 256, in three of five layers."""
_EXPERTS = {"expert_layers": (3,)}
"""Where the reference code has them."""


def _wmt(
    de: tuple[float | None, float | None], fr: tuple[float | None, float | None]
) -> dict[str, Figures]:
    """(BLEU, FLOPs) of EN-DE and of EN-FR, as far as they are printed."""
    found: dict[str, Figures] = {}
    for direction, (bleu, flops) in (("en-de", de), ("en-fr", fr)):
        figures = {"bleu": bleu, "flops": flops}
        found[direction] = {name: value for name, value in figures.items() if value is not None}
    return found


def _wikisum(log_perplexity: float, rouge_l: float) -> dict[str, Figures]:
    return {ANY: {"log_perplexity": log_perplexity, "rouge_l": rouge_l}}


TRANSLATION = LectureTable(
    name="translation",
    task="translation",
    metrics=("bleu", "chrf"),
    where="WMT 2014, newstest2014",
    rows=(
        LectureRow(
            key="bytenet2016",
            title="ByteNet",
            preset="bytenet2016",
            rate=8.0,
            published=_wmt((23.75, None), (None, None)),
        ),
        LectureRow(
            key="deep-att2016",
            title="Deep-Att + PosUnk",
            preset="deep-att2016",
            rate=4.0,
            decode={"replace_unknown": True},
            published=_wmt((None, None), (39.2, 1.0e20)),
        ),
        LectureRow(key="gnmt2016", title="GNMT", preset="gnmt2016", rate=4.0),
        LectureRow(
            key="gnmt2016-rl",
            title="GNMT + RL",
            preset="gnmt2016",
            train={"objective": "gleu"},
            follows="gnmt2016",
            published=_wmt((24.6, 2.3e19), (39.92, 1.4e20)),
        ),
        LectureRow(
            key="convs2s2017",
            title="ConvS2S",
            preset="convs2s2017",
            rate=4.0,
            published=_wmt((25.16, 9.6e18), (40.46, 1.5e20)),
        ),
        LectureRow(
            key="moe2017",
            title="MoE",
            preset="moe2017",
            rate=2.0,
            published=_wmt((26.03, 2.0e19), (40.56, 1.2e20)),
        ),
        LectureRow(
            key="deep-att2016-ensemble",
            title="Deep-Att + PosUnk Ensemble",
            ensemble_of="deep-att2016",
            published=_wmt((None, None), (40.4, 8.0e20)),
        ),
        LectureRow(
            key="gnmt2016-rl-ensemble",
            title="GNMT + RL Ensemble",
            ensemble_of="gnmt2016-rl",
            published=_wmt((26.30, 1.8e20), (41.16, 1.1e21)),
        ),
        LectureRow(
            key="convs2s2017-ensemble",
            title="ConvS2S Ensemble",
            ensemble_of="convs2s2017",
            published=_wmt((26.36, 7.7e19), (41.29, 1.2e21)),
        ),
        LectureRow(
            key="transformer",
            title="Transformer (base model)",
            preset="transformer",
            rate=2.0,
            model=_PRE_NORM,
            published=_wmt((27.3, 3.3e18), (38.1, None)),
        ),
        LectureRow(
            key="transformer-big",
            title="Transformer (big)",
            preset="transformer",
            sizes=_BIG,
            model=_PRE_NORM,
            published=_wmt((28.4, 2.3e19), (41.8, None)),
        ),
    ),
    claims=(
        TableClaim("Larger is better", "better", ("transformer-big", "transformer")),
        TableClaim(
            "The Transformer is cheaper at the same quality",
            "cheaper",
            ("transformer", "transformer-big"),
        ),
        TableClaim("Ensembles help", "ensembles"),
    ),
    recipe="transformer",
    data=("multi30k-en-de", "multi30k-en-fr"),
    quick=("sentences",),
    quick_budget="2e12flops",
    differences="PosUnk replaces unknown words, and changes nothing where there are none: in texts "
    "cut into byte pairs, and in the built-in sentences",
)

SUMMARIZATION = LectureTable(
    name="summarization",
    task="summarization",
    metrics=("rouge_l", "log_perplexity"),
    where="WikiSum",
    rows=(
        LectureRow(
            key="seq2seq-attention",
            title="seq2seq-attention, L = 500",
            preset="seq2seq-attention",
            rate=8.0,
            max_len=500,
            published=_wikisum(5.04952, 12.7),
        ),
        LectureRow(
            key="transformer-ed",
            title="Transformer-ED, L = 500",
            preset="transformer-ed",
            rate=4.0,
            model=_PRE_NORM,
            max_len=500,
            published=_wikisum(2.46645, 34.2),
        ),
        LectureRow(
            key="transformer-d",
            title="Transformer-D, L = 4000",
            preset="transformer-d",
            rate=2.0,
            model=_NEAR,
            max_len=4000,
            published=_wikisum(2.22216, 33.6),
        ),
        LectureRow(
            key="dmca2018",
            title="Transformer-DMCA, no MoE-layer, L = 11000",
            preset="dmca2018",
            model=_COMPRESSED,
            max_len=11000,
            published=_wikisum(2.05159, 36.2),
        ),
        LectureRow(
            key="dmca2018-moe-128",
            title="Transformer-DMCA, MoE-128, L = 11000",
            preset="dmca2018",
            model={**_COMPRESSED, **_EXPERTS, "experts": 128},
            max_len=11000,
            published=_wikisum(1.92871, 37.9),
        ),
        LectureRow(
            key="dmca2018-moe-256",
            title="Transformer-DMCA, MoE-256, L = 7500",
            preset="dmca2018",
            model={**_COMPRESSED, **_EXPERTS, "experts": 256},
            max_len=7500,
            published=_wikisum(1.90325, 38.8),
        ),
    ),
    claims=(
        TableClaim(
            "Transformers summarize better than recurrent networks",
            "better",
            ("transformer-ed", "seq2seq-attention"),
        ),
        TableClaim(
            "Reading more with compressed memory helps", "longer", ("dmca2018", "transformer-d")
        ),
        TableClaim("Experts help", "better", ("dmca2018-moe-128", "dmca2018")),
    ),
    recipe="documents-500",
    data=("documents-1100",),
    quick=(
        "documents",
        "data.document_length=240",
        "data.n_train=4000",
        "data.truncate=true",
        "train.batch_tokens=1024",
    ),
    quick_budget="1e12flops",
    records="summary",
    directed=False,
    shorter={"tiny": 10, "small": 10},
    fewer_experts={"tiny": 8, "small": 4},
    differences="in Transformer-D every other layer, and in Transformer-DMCA three layers of five, "
    "see the four words before each (published: all words, and blocks of 256); both have rotary "
    "positions (published: sinusoids)",
)

TABLES = {table.name: table for table in (TRANSLATION, SUMMARIZATION)}


def table_named(name: str) -> LectureTable:
    """One of the tables, or a ConfigError that says which there are."""
    if name not in TABLES:
        known = ", ".join(TABLES)
        raise ConfigError(f"no table {name!r}{did_you_mean(name, TABLES)}; there are {known}")
    return TABLES[name]
