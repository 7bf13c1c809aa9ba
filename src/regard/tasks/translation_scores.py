"""How good a translator is: its texts, its probabilities, and where its attention looks."""

from __future__ import annotations

import dataclasses
from bisect import bisect_right
from collections import Counter
from collections.abc import Hashable, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.core.errors import DataError
from regard.data.alignments import Aligned
from regard.data.batch import Batch
from regard.data.examples import encode_pairs
from regard.data.pair_batches import ordered_batches
from regard.data.records import Pair
from regard.data.splits import Data, split_of
from regard.decoding.ensemble import Ensemble
from regard.evaluation import attention
from regard.evaluation.attention import Links, Watched
from regard.evaluation.label_metrics import alignment_error_rate, perplexity
from regard.evaluation.metrics import computed
from regard.evaluation.systems import by_length
from regard.evaluation.text_metrics import exact_match
from regard.inspection.capture import CROSS, watch
from regard.layers.window import STRIDE
from regard.tasks.base import Evaluation
from regard.tasks.translator import Run
from regard.text import words
from regard.text.tokenizer import Tokenizer
from regard.training.distributed import divided

TEST_METRICS = ("exact_match", "bleu", "bleu_lc", "chrf", "gleu")


def evaluate_split(
    run: Run, data: Data[Pair], split: str, *, beam: int | None = None
) -> Evaluation:
    """Scores on a split of the data the run was trained with."""
    remedy = "; files of your own: --source and --reference (source=, reference=)"
    pairs = split_of(data.splits, split, remedy=remedy)
    evaluation = evaluate_pairs(run, pairs, split=split, beam=beam)
    if isinstance(run.model, Ensemble):  # each member looks for itself
        return evaluation
    valid, test = (
        [pair for pair in some if run.fits(pair.source, pair.target)]
        for some in (data.splits["valid"], pairs)
    )
    evaluation.scores.update(attention_scores(run, valid, test))
    return evaluation


def evaluate_pairs(
    run: Run, pairs: Sequence[Pair], *, split: str, beam: int | None = None
) -> Evaluation:
    """Scores of the translations of any pairs, and of the model's probabilities for them.

    What is too long for the model counts as not translated; probabilities are those of the rest.
    """
    sources = [pair.source for pair in pairs]
    references = [pair.target for pair in pairs]
    short = [pair for pair in pairs if run.fits(pair.source, pair.target)]
    readable = [source if run.fits(source) else "" for source in sources]
    translations = run.written(readable, beam=beam)
    asked = run.recipe.train
    scores = {
        "task": run.task,
        "split": split,
        "n": len(pairs),
        **computed((*TEST_METRICS, *asked.metrics, *asked.rewards), translations, references),
        **_multi(pairs, translations),
        **likelihood(run, short),
        "by_length": [
            dataclasses.asdict(bucket) for bucket in by_length(sources, translations, references)
        ],
    }
    if len(short) < len(pairs):
        scores["too_long"] = len(pairs) - len(short)
    if tags := _by_tag(pairs, translations):
        scores["exact_match_by_tag"] = tags
    return Evaluation(scores, translations, references=references)


def _multi(pairs: Sequence[Pair], translations: Sequence[str]) -> dict[str, Any]:
    """BLEU with all the references of a source, each source once; nothing where all have one."""
    known: dict[str, list[str]] = {}
    written: dict[str, str] = {}
    for pair, translation in zip(pairs, translations, strict=True):
        references = known.setdefault(pair.source, [])
        if pair.target not in references:
            references.append(pair.target)
        written[pair.source] = translation
    if all(len(references) == 1 for references in known.values()):
        return {}
    scores = computed(("bleu",), list(written.values()), list(known.values()))
    multi = {"bleu_multi": scores["bleu"], "bleu_multi_signature": scores["bleu_signature"]}
    return {"n_sources": len(known), **multi}


def _by_tag(pairs: Sequence[Pair], translations: Sequence[str]) -> dict[str, dict[str, float]]:
    """Exact match of the pairs with each tag, and of those without any."""
    groups: dict[str, list[int]] = {}
    for i, pair in enumerate(pairs):
        for tag in pair.tags or {"untagged"}:
            groups.setdefault(tag, []).append(i)
    if set(groups) <= {"untagged"}:
        return {}
    found = {}
    for tag, rows in sorted(groups.items()):
        said, right = [translations[i] for i in rows], [pairs[i].target for i in rows]
        found[tag] = {"n": len(rows), "exact_match": exact_match(said, right)}
    return found


def likelihood(run: Run, pairs: Sequence[Pair]) -> dict[str, float]:
    """Perplexity and accuracy a token, the right words before it being given."""
    if not pairs:
        return {}
    judged = run.token_scores([pair.source for pair in pairs], [pair.target for pair in pairs])
    n_tokens = sum(len(one.right) for one in judged)
    total = sum(float(one.log_probs.double().sum()) for one in judged)
    right = sum(int(one.right.sum()) for one in judged)
    return {"perplexity": perplexity(total, n_tokens), "accuracy": right / n_tokens}


Matrix = NDArray[np.float64]
BATCH_TOKENS = 4096
MOST = 500
"""Sentences of a set that are watched: enough to tell heads apart, and quick."""
SELF = "encoder.self"


def attention_scores(
    run: Run, valid: Sequence[Pair], test: Sequence[Pair]
) -> dict[str, float | str]:
    """Alignment error rate and antecedent accuracy, each with its head and its baseline.

    The head, or the mean of a layer, is chosen on ``valid`` and scored on ``test``; what the data
    or the model has nothing of is left out.
    """
    scores: dict[str, float | str] = {}
    for score, name, links, measure in (
        ("aer", CROSS, "alignment", attention.ALIGNMENT),
        ("antecedent_accuracy", SELF, "antecedents", attention.ANTECEDENTS),
    ):
        parts = [[one for one in pairs if getattr(one, links)][:MOST] for pairs in (valid, test)]
        watched = [_watched(run, pairs, name, links) for pairs in parts] if all(parts) else []
        if watched and watched[0][0].weights:
            choice = measure.chosen(*watched)
            scores |= {score: choice.test, f"{score}_by": str(choice.label)}
            scores[f"{score}_shuffled"] = choice.baseline
            scores[f"{score}_rule"] = RULES[score](*parts)
    return scores


def same_place(_valid: Sequence[Pair], test: Sequence[Pair]) -> float:
    """A rule that is blind to the words, for alignments: the error rate on ``test`` of linking
    each target word with the source word at its place, or the last."""
    lengths = [(len(words.split(pair.source)), len(words.split(pair.target))) for pair in test]
    found = [{(min(t, n_source - 1), t) for t in range(n)} for n_source, n in lengths]
    return alignment_error_rate(found, [pair.alignment or () for pair in test])


def so_many_before(valid: Sequence[Pair], test: Sequence[Pair]) -> float:
    """The same for antecedents: the accuracy on ``test`` of taking the word so many places before
    the pronoun, a number that is chosen on ``valid`` as a head is."""
    links = [pair.antecedents or () for pair in valid]
    distances = Counter(pronoun - antecedent for some in links for pronoun, antecedent in some)
    (distance, _), *_ = distances.most_common(1)
    asked = [
        (pronoun, some)
        for some in (pair.antecedents or () for pair in test)
        for pronoun in dict.fromkeys(pronoun for pronoun, _ in some)
    ]
    return sum((pronoun, pronoun - distance) in some for pronoun, some in asked) / len(asked)


RULES = {"aer": same_place, "antecedent_accuracy": so_many_before}
"""What a head has to beat: rules that know nothing of the words."""


def gold_scores_by_head(run: Run, pairs: Sequence[Pair]) -> dict[str, dict[Hashable, float]]:
    """Where the data knows them, of each head by its label: how well it finds what it should.

    ``aer`` is the alignment error rate of cross-attention, ``antecedent`` the share of pronouns
    whose antecedent a head of the encoder finds.
    """
    aligned = _watched(run, pairs, CROSS, "alignment")
    linked = _watched(run, pairs, SELF, "antecedents")
    return {
        "aer": attention.ALIGNMENT.by_head(aligned) if aligned else {},
        "antecedent": attention.ANTECEDENTS.by_head(linked) if linked else {},
    }


def rules_by_measure(pairs: Sequence[Pair]) -> dict[str, float]:
    """What rules find that are blind to the words, chosen and scored on the same pairs as heads."""
    aligned = [pair for pair in pairs if pair.alignment]
    linked = [pair for pair in pairs if pair.antecedents]
    found = {"aer_rule": same_place(aligned, aligned)} if aligned else {}
    return {**found, **({"antecedent_rule": so_many_before(linked, linked)} if linked else {})}


def _watched(run: Run, pairs: Sequence[Pair], name: str, links: str) -> list[Watched]:
    """The pairs that have such links, watched in the attention of this name."""
    known = [pair for pair in pairs if getattr(pair, links)]
    return watched_words(run, known, name, [getattr(pair, links) for pair in known])


def watched_words(
    run: Run, pairs: Sequence[Pair], name: str, links: Sequence[Links]
) -> list[Watched]:
    """Each pair's word-by-word weights of every head and of every layer's mean."""
    if name == CROSS and getattr(run.model, "reads_as_one", False):
        both = zip(pairs, links, strict=True)
        return [Watched(words_as_one(run, pair), tuple(some)) for pair, some in both]
    read, write = run.tokenizers.source, run.tokenizers.target

    def watched(batch: Batch) -> dict[int, Watched]:
        here, found = batch.to(run.device), dict[int, Watched]()
        with torch.no_grad(), watch(run.model) as views:
            run.model(here.source, here.target_in)
            layers = {
                layer: view.weights().float().cpu().numpy()  # (B, H, T, S)
                for (place, layer), view in views.items()
                if place == name
            }
        for row, number in enumerate(batch.numbers):
            seen = [*read.word_ids(pairs[number].source), None]  # the end token is no word
            asks = seen if name == SELF else [*write.word_ids(pairs[number].target), None]
            weights: dict[Hashable, Matrix] = {}
            for layer, heads in layers.items():
                inside = heads[row, :, : len(asks), : len(seen)]  # row t writes token t
                weights |= _labelled(
                    f"{name} layer {layer}", attention.words_matrix(inside, seen, asks)
                )
            found[number] = Watched(weights, tuple(links[number]))
        return found

    results: dict[int, Watched] = {}
    examples = encode_pairs(pairs, read, write)
    for some in divided(ordered_batches(examples, BATCH_TOKENS) if pairs else (), watched):
        results |= some
    return [results[number] for number in range(len(pairs))]


def words_as_one(run: Run, pair: Pair) -> dict[Hashable, Matrix]:
    """The same of a decoder to which source and target are one text: it has no cross-attention.

    A look at it has a row for each target token; its columns are source, begin token and target, or
    slots of them, whose weight is spread over the positions that they cover.
    """
    look = run.explain(pair.source, pair.target)
    seen = [*run.tokenizers.source.word_ids(pair.source), None]
    asks = [*run.tokenizers.target.word_ids(pair.target), None]
    found: dict[Hashable, Matrix] = {}
    for name, layers in look.attentions.items():
        for layer, heads in enumerate(layers):
            if name.endswith(".compressed"):
                heads = np.repeat(heads[..., 1:] / STRIDE, STRIDE, axis=-1)  # the null is first
            n_missing = max(0, len(seen) - heads.shape[-1])  # behind the last whole slot
            inside = np.pad(heads, ((0, 0), (0, 0), (0, n_missing)))[..., : len(seen)]
            found |= _labelled(f"{name} layer {layer}", attention.words_matrix(inside, seen, asks))
    return found


def _labelled(label: str, heads: Matrix, when: str = "") -> dict[Hashable, Matrix]:
    """The matrices of a layer's heads (H, T, S) and their mean, by what they are called."""
    found: dict[Hashable, Matrix] = {f"{label} head {h}{when}": one for h, one in enumerate(heads)}
    return {**found, f"{label} mean{when}": heads.mean(axis=0)}


CHOOSING = 100
"""Sentences on which a head is chosen, or half of them where there are few."""
MOMENTS = {"as it is written": slice(None, -1), "as it is read": slice(1, None)}
"""Rows of a target's tokens: row t has read t tokens and writes one more, the last one the end."""


def alignment_scores(run: Run, sentences: Sequence[Aligned]) -> dict[str, Any]:
    """Alignment error rate (Och & Ney 2003), by which head, and what chance would give."""
    short = [one for one in sentences if run.fits(words.join(one.source), words.join(one.target))]
    n_choosing = min(CHOOSING, len(short) // 2)
    if not n_choosing:
        raise DataError(
            f"{len(short)} aligned sentences that the model can read are too few: a head is chosen "
            "on some and scored on others"
        )
    watched = [watched_aligned(run, one) for one in short]
    choice = attention.ALIGNMENT.chosen(watched[:n_choosing], watched[n_choosing:])
    scores = {
        "n": len(short) - n_choosing,
        "aer": choice.test,
        "aer_by": str(choice.label),
        "aer_shuffled": choice.baseline,
        "chosen_on": n_choosing,
        "chosen_on_aer": choice.valid,
    }
    if len(short) < len(sentences):
        scores["too_long"] = len(sentences) - len(short)
    return scores


def watched_aligned(run: Run, one: Aligned) -> Watched:
    """A sentence's weights between the words of the file, by every candidate."""
    source, target = words.join(one.source), words.join(one.target)
    layers = run.explain(source, target).attentions.get(CROSS, ())  # each (H, T, S)
    if not layers:
        raise DataError(f"a {run.recipe.model.preset} has no cross-attention to align words with")
    seen = [*word_ids(run.tokenizers.source, source, one.source), None]  # the end token is no word
    asking = word_ids(run.tokenizers.target, target, one.target)
    weights: dict[Hashable, Matrix] = {}
    for moment, rows in MOMENTS.items():
        matrices = [attention.words_matrix(heads[:, rows], seen, asking) for heads in layers]
        for layer, heads in enumerate(matrices):
            weights |= _labelled(f"{CROSS} layer {layer}", heads, f", {moment}")
        weights[f"{CROSS} mean, {moment}"] = np.mean([m.mean(axis=0) for m in matrices], axis=0)
    return Watched(weights, one.sure, one.possible)


def word_ids(tokenizer: Tokenizer, text: str, given: Sequence[str]) -> list[int | None]:
    """For each token of a text its word among those given, counted from 0; None for a space.

    The tokenizer may know other words than the given ones, but joined they have the same letters.
    """
    ends = list(accumulate(map(len, given)))  # of the given words, among the letters alone
    spaces = list(accumulate((sign.isspace() for sign in text), initial=0))
    starts = [start - spaces[start] for start, _ in words.spans(text)]
    owners = [bisect_right(ends, start) for start in starts]
    return [None if word is None else owners[word] for word in tokenizer.word_ids(text)]
