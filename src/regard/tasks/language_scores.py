"""How probable texts are for a language model, and how well it does tasks written as texts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.core.errors import ConfigError, DataError
from regard.data.examples import Ids
from regard.data.language_windows import Span, spans
from regard.data.worlds.prompted import Item, PromptedTask
from regard.decoding.sampling import seeded
from regard.evaluation.metrics import computed, perplexity
from regard.models.decoder import LanguageModel
from regard.tasks.generation import Framing, LanguageRun
from regard.tasks.translating import TokenScores

AT_ONCE = {"cpu": 4096, "cuda": 65_536}
"""Tokens that are read together."""
LOGITS = 2**22
"""Logits that exist at a time."""


@torch.inference_mode()
def judged(
    model: LanguageModel, ids: Ids, *, device: torch.device, stride: int | None = None
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
    parts = [
        _judged(model, torch.from_numpy(rows).to(device), n_counted)
        for rows, n_counted in _batches(ids, list(spans(len(ids), context, stride)), device)
    ]
    return TokenScores(*(torch.cat(column).cpu() for column in zip(*parts, strict=True)))


def judged_each(
    model: LanguageModel, texts: Sequence[Ids], *, device: torch.device
) -> list[TokenScores]:
    """As ``judged``, of texts apart. What is longer than the context slides by half of it."""
    stride = max(1, model.config.max_len // 2)
    return [judged(model, text, device=device, stride=stride) for text in texts]


Continuation = tuple[Sequence[int], Sequence[int]]
"""What was read, and what may come after it."""


@torch.inference_mode()
def log_probs_after(
    model: LanguageModel, pairs: Sequence[Continuation], *, device: torch.device
) -> list[float]:
    """Of what comes after, given what was read; the context must hold both, but for the last."""
    for before, after in pairs:
        _check_room(len(before), len(after), model.config.max_len)
    found = [0.0] * len(pairs)
    for places in _alike(pairs, device):
        n = len(pairs[places[0]][1])
        ids = torch.tensor([[*pairs[place][0], *pairs[place][1]] for place in places])
        scores = _judged(model, ids.to(device), n).log_probs.unflatten(0, (len(places), n))
        for place, score in zip(places, scores.double().sum(dim=1).tolist(), strict=True):
            found[place] = score
    return found


def _check_room(n_before: int, n_after: int, context: int) -> None:
    if not n_after:
        raise DataError("an option has no text to be chosen by")
    n_read = n_before + n_after - 1
    if n_read > context:
        raise DataError(
            f"prompt and option have {n_read:,} tokens to read, but the model's context holds "
            f"{context:,}; shorten the prompt"
        )


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


@dataclass(frozen=True, slots=True)
class Judge:
    """A model, and how it reads texts."""

    model: LanguageModel
    framing: Framing
    device: torch.device

    def log_probs(self, texts: Sequence[str]) -> list[float]:
        """Of each text alone, its end included."""
        ids = [self.framing.scored([text]) for text in texts]
        found = judged_each(self.model, ids, device=self.device)
        return [float(one.log_probs.double().sum()) for one in found]

    def perplexity(self, texts: Sequence[str], stride: int | None) -> float:
        """Of all of them end to end; ``stride`` as ``language_scores.judged`` has it."""
        ids = self.framing.scored(texts)
        found = judged(self.model, ids, device=self.device, stride=stride)
        return float(summed_up(found)["perplexity"])

    def chances(self, prompt: str, options: Sequence[str]) -> list[float]:
        """Of each option, given that one of them follows."""
        before = self.framing.read(prompt)
        asked = [(before, self.framing.inside(option)) for option in options]
        return shares(log_probs_after(self.model, asked, device=self.device))

    def scores(self, texts: Sequence[str], stride: int | None) -> dict[str, Any]:
        """Of a corpus end to end.

        Perplexity a word is told where nothing is unknown: what is read as ``<unk>`` costs nothing.
        """
        ids = self.framing.laid(texts)
        found = judged(self.model, ids, device=self.device, stride=stride)
        scores = {"n": len(texts), **summed_up(found)}
        if stride is not None:
            scores["stride"] = stride
        unread = self.framing.tokenizer.specials.unread
        n_unknown = 0 if unread is None else int((ids[1:] == unread).sum())
        if n_unknown:
            return {**scores, "unknown": n_unknown}
        return {**scores, "word_perplexity": word_perplexity(found, texts)}


def exercise_scores(
    run: LanguageRun, exercises: Sequence[PromptedTask]
) -> dict[str, dict[str, Any]]:
    """Scores of each exercise by its name.

    Where the answers are few, the most probable one is taken: ``accuracy``. Where any text may be
    one, it is written, the most probable token each time: ``exact_match``, ``bleu`` and ``chrf``.
    What is too long to be read counts as not answered.
    """
    return {one.name: _scores(run, one) for one in exercises}


def _scores(run: LanguageRun, exercise: PromptedTask) -> dict[str, Any]:
    items = exercise.items
    prompts = [run.framing.read(item.prompt) for item in items]
    if exercise.options:
        return {"n": len(items), "accuracy": _accuracy(run, prompts, items, exercise.options)}
    return {"n": len(items), **_text_scores(_written(run, prompts), items)}


def _accuracy(
    run: LanguageRun, prompts: Sequence[list[int]], items: Sequence[Item], options: Sequence[str]
) -> float:
    """The share of items whose answer is the most probable of the options."""
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


def _written(run: LanguageRun, prompts: Sequence[list[int]]) -> list[str]:
    """What the model writes after each prompt."""
    config = run.generation(max_new=run.recipe.decode.max_len, beam=1, temperature=0.0)
    short = [place for place, prompt in enumerate(prompts) if len(prompt) <= run.context]
    found = run.generator.texts([prompts[place] for place in short], config, rng=seeded(0))
    texts = [""] * len(prompts)
    for place, (one,) in zip(short, found, strict=True):
        texts[place] = one.text.strip()
    return texts


def _text_scores(texts: Sequence[str], items: Sequence[Item]) -> Mapping[str, Any]:
    answers = [item.answer for item in items]
    return computed(("exact_match", "bleu", "chrf"), texts, answers)
