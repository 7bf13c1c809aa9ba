"""How well each head alone finds what the data knows: alignments and antecedents.

These are measures of all heads, none is chosen. Whoever wants one head and its score takes
``regard.runs.attention_scores``, which chooses on other sentences than it scores on.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from regard.data.pairs import Pair
from regard.evaluation.attention import (
    Links,
    Watched,
    alignment_error_by_head,
    antecedent_accuracy_by_head,
)
from regard.runs.attention_scores import watched_words
from regard.runs.kinds.translator import Run


def alignment_errors(run: Run, pairs: Sequence[Pair]) -> dict[Hashable, float]:
    """``label`` of each cross-attention head -> its error rate, where alignments are known."""
    known = [pair for pair in pairs if pair.alignment]
    sentences = _sentences(run, known, "decoder.cross", [pair.alignment or () for pair in known])
    return alignment_error_by_head(sentences) if sentences else {}


def antecedent_accuracies(run: Run, pairs: Sequence[Pair]) -> dict[Hashable, float]:
    """``label`` of each encoder head -> the share of pronouns whose antecedent it finds."""
    known = [pair for pair in pairs if pair.antecedents]
    sentences = _sentences(run, known, "encoder.self", [pair.antecedents or () for pair in known])
    return antecedent_accuracy_by_head(sentences) if sentences else {}


def label(name: str, layer: int, head: int) -> str:
    """What a head is called among the scores."""
    return f"{name} layer {layer} head {head}"


def _sentences(run: Run, pairs: Sequence[Pair], name: str, links: Sequence[Links]) -> list[Watched]:
    """Weights between words of every sentence; without labels where there is no such attention."""
    return watched_words(run, pairs, name, links) if pairs else []
