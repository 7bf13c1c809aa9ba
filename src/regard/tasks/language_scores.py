"""How probable texts are for a language model, and how well it does tasks written as texts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from regard.core.errors import ConfigError, DataError
from regard.data.examples import Ids
from regard.data.language import Span, spans
from regard.data.worlds.prompted import PromptedTask
from regard.decoding.sampling import seeded
from regard.evaluation.label_metrics import perplexity
from regard.evaluation.metrics import computed
from regard.models.decoder import LanguageModel
from regard.tasks.translating import TokenScores
from regard.training.distributed import divided

AT_ONCE = {"cpu": 4096, "cuda": 65_536}
"""Tokens that are read together."""
LOGITS = 2**22
"""Logits that exist at a time."""


@torch.inference_mode()
def judged(
    model: LanguageModel, ids: Ids, device: torch.device, stride: int | None = None
) -> TokenScores:
    """Every id but the first, in windows of the model's context that begin ``stride`` apart.

    Without a stride they do not overlap.
    """
    context = model.config.max_len
    stride = context if stride is None else stride
    if not 1 <= stride <= context:
        raise ConfigError(f"a stride must be from 1 to the context of {context}: {stride}")
    if len(ids) < 2:
        raise DataError("there is no token to score: the text is empty")

    def judge(batch: tuple[Ids, int]) -> tuple[Tensor, ...]:
        rows, n_counted = batch
        found = _judged(model, torch.from_numpy(rows).to(device), n_counted)
        return tuple(column.cpu() for column in found)

    parts = divided(_batches(ids, list(spans(len(ids), context, stride)), device), judge)
    return TokenScores(*map(torch.cat, zip(*parts, strict=True)))


Continuation = tuple[Sequence[int], Sequence[int]]
"""What was read, and what may come after it."""


@torch.inference_mode()
def log_probs_after(
    model: LanguageModel, pairs: Sequence[Continuation], *, device: torch.device
) -> list[float]:
    """Of what comes after, given what was read; the context must hold both, but for the last."""
    context = model.config.max_len
    for before, after in pairs:
        if not after:
            raise DataError("an option has no text to be chosen by")
        if (n_read := len(before) + len(after) - 1) > context:
            raise DataError(
                f"prompt and option have {n_read:,} tokens to read, but the model's context holds "
                f"{context:,}; shorten the prompt"
            )
    found = [0.0] * len(pairs)
    for places in _alike(pairs, device):
        n = len(pairs[places[0]][1])
        ids = torch.tensor([[*pairs[place][0], *pairs[place][1]] for place in places])
        scores = _judged(model, ids.to(device), n).log_probs.unflatten(0, (len(places), n))
        for place, score in zip(places, scores.double().sum(dim=1).tolist(), strict=True):
            found[place] = score
    return found


class RankedTokens(NamedTuple):
    """Tokens that were written, each beside those that were most probable in its place."""

    log_probs: list[float]
    """Of each token that was written."""
    best: list[list[tuple[int, float]]]
    """In the place of each: ids with their log-probabilities, the most probable first."""


@torch.inference_mode()
def ranked_after(
    model: LanguageModel, before: Sequence[int], after: Sequence[int], n: int, device: torch.device
) -> RankedTokens:
    """How probable each id is of what was written after a prompt, and the ``n`` best beside it."""
    found = RankedTokens([], [])
    if not after:
        return found
    ids = torch.tensor([[*before, *after]], device=device)
    states = model.states(ids[:, :-1])[0, -len(after) :]
    at_once = max(1, LOGITS // model.config.n_vocab)
    for x, y in zip(states.split(at_once), ids[0, -len(after) :].split(at_once), strict=True):
        scores = model.logits(x).float().log_softmax(dim=-1)
        found.log_probs.extend(scores.gather(1, y.unsqueeze(1)).squeeze(1).tolist())
        top = scores.topk(min(n, scores.shape[-1]), dim=-1)
        rows = zip(top.indices.tolist(), top.values.tolist(), strict=True)
        found.best.extend([*zip(*row, strict=True)] for row in rows)
    return found


def _alike(pairs: Sequence[Continuation], device: torch.device) -> Iterator[list[int]]:
    """Numbers of pairs that have the same two lengths, not too many at once."""
    by_length: dict[tuple[int, int], list[int]] = {}
    for place, (before, after) in enumerate(pairs):
        by_length.setdefault((len(before), len(after)), []).append(place)
    for (n_before, n_after), places in by_length.items():
        n = max(1, AT_ONCE.get(device.type, AT_ONCE["cpu"]) // (n_before + n_after))
        yield from (places[begin : begin + n] for begin in range(0, len(places), n))


def summed_up(found: TokenScores) -> dict[str, Any]:
    """Scores of many tokens together."""
    total, n = float(found.log_probs.double().sum()), len(found.right)
    return {
        "tokens": n,
        "loss": -total / n,
        "perplexity": perplexity(total, n),
        "accuracy": int(found.right.sum()) / n,
    }


def word_perplexity(found: TokenScores, texts: Sequence[str]) -> float:
    """Of the same text counted in words between spaces, the end of each text being one more.

    It compares models whose tokens differ.
    """
    n_words = sum(len(text.split()) + 1 for text in texts)
    return perplexity(float(found.log_probs.double().sum()), n_words)


def shares(log_probs: Sequence[float]) -> list[float]:
    """Log-probabilities of a few choices -> what each has of all.

    >>> [round(share, 6) for share in shares([math.log(0.1), math.log(0.3)])]
    [0.25, 0.75]
    """
    best = max(log_probs)
    weights = [math.exp(one - best) for one in log_probs]
    return [weight / sum(weights) for weight in weights]


def _batches(
    ids: Ids, windows: Sequence[Span], device: torch.device
) -> Iterator[tuple[np.ndarray[Any, Any], int]]:
    """Windows of one shape side by side (B, L + 1), and how many tokens count in each."""
    for (n_read, n_counted), same in groupby(windows, key=lambda span: span.shape):
        n_rows = max(1, AT_ONCE.get(device.type, AT_ONCE["cpu"]) // n_read)
        begins = np.array([span.begin for span in same])
        for first in range(0, len(begins), n_rows):
            at = begins[first : first + n_rows, None] + np.arange(n_read + 1)
            yield ids[at].astype(np.int64), n_counted


def _judged(model: LanguageModel, ids: Tensor, n_counted: int) -> TokenScores:
    """Of the last tokens of each window (B, L + 1)."""
    states = model.states(ids[:, :-1])[:, -n_counted:].flatten(0, 1)
    wanted = ids[:, -n_counted:].flatten()
    n = max(1, LOGITS // model.config.n_vocab)
    log_probs, right = [], []
    for x, y in zip(states.split(n), wanted.split(n), strict=True):
        logits = model.logits(x).float()
        log_probs.append(logits.log_softmax(dim=-1).gather(1, y.unsqueeze(1)).squeeze(1))
        right.append(logits.argmax(dim=-1) == y)
    return TokenScores(torch.cat(log_probs), torch.cat(right))


def exercise_scores(run: Any, exercises: Sequence[PromptedTask]) -> dict[str, dict[str, Any]]:
    """Scores of each exercise by its name, done by a ``Writer``.

    Where the answers are few, the most probable one is taken: ``accuracy``. Where any text may be
    one, it is written, the most probable token each time: ``exact_match``, ``bleu`` and ``chrf``.
    What is too long to be read counts as not answered.
    """
    scores = {}
    for one in exercises:
        prompts = [run.framing.read(item.prompt) for item in one.items]
        if one.options:
            found = {"accuracy": _accuracy(run, prompts, one)}
        else:
            answers = [item.answer for item in one.items]
            metrics = ("exact_match", "bleu", "chrf")
            found = computed(metrics, _written(run, prompts), answers)
        scores[one.name] = {"n": len(one.items), **found}
    return scores


def _accuracy(run: Any, prompts: Sequence[list[int]], exercise: PromptedTask) -> float:
    """The share of items whose answer is the most probable of the options."""
    options, items = exercise.options, exercise.items
    after = [run.framing.inside(f" {option}") for option in options]
    most = run.context + 1 - max(map(len, after))  # the last token is never read
    short = [place for place, prompt in enumerate(prompts) if len(prompt) <= most]
    asked = [(prompts[place], one) for place in short for one in after]
    scores = log_probs_after(run.model, asked, device=run.device)
    right = 0
    for row, place in enumerate(short):
        of_item = scores[row * len(options) : (row + 1) * len(options)]
        right += options[of_item.index(max(of_item))] == items[place].answer
    return right / len(items)


def _written(run: Any, prompts: Sequence[list[int]]) -> list[str]:
    """What the model writes after each prompt."""
    config = run.generation(max_new=run.recipe.decode.max_len, beam=1, temperature=0.0)
    short = [place for place, prompt in enumerate(prompts) if len(prompt) <= run.context]
    found = run.generator.texts([prompts[place] for place in short], config, rng=seeded(0))
    texts = [""] * len(prompts)
    for place, (one,) in zip(short, found, strict=True):
        texts[place] = one.text.strip()
    return texts
