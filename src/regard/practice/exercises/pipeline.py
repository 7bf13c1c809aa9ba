"""A full pipeline: from sentences to a model that has learned something from them.

A small model that guesses the next word is given, and so are sentences of a small language. Build
all that lies between them:

    build_vocabulary(sentences)            a number for each word
    encode(sentence, vocabulary)           <bos>, the words, <eos> as ids
    pad(rows)                              rows of ids of unequal length -> one tensor
    inputs_and_targets(ids)                what is read, and the word that should come next
    masked_loss(logits, targets)           mean cross-entropy over words, padding left out
    train_step(model, optimiser, inputs, targets)   one update
    train(model, sentences, vocabulary)    updates until the model is good

You pass when the loss on new sentences is below what counting words reaches (a unigram model).
The training may take a minute; seconds are enough.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.practice.sheet import Arguments, Sheet

sheet = Sheet()

PAD, BOS, EOS = 0, 1, 2
SPECIAL = ("<pad>", "<bos>", "<eos>")


@sheet.given
def toy_sentences(n: int, seed: int) -> list[str]:
    """n sentences such as 'the dog chases a small cat', the same for the same seed."""
    draw = random.Random(seed)
    nouns = ["cat", "dog", "mouse", "bird", "child"]
    sentences = []
    for _ in range(n):
        who, whom = draw.sample(nouns, 2)
        small = draw.choice(["", "", "small ", "old "])
        if draw.random() < 0.3:
            sentences.append(f"the {small}{who} sleeps")
        else:
            verb = draw.choice(["sees", "chases", "likes"])
            sentences.append(f"the {small}{who} {verb} {draw.choice(['the', 'a'])} {whom}")
    return sentences


@sheet.given
class NextWord(nn.Module):
    """A Transformer of one layer, which guesses the next word from the words so far."""

    def __init__(self, n_vocab: int, d_model: int = 32, max_len: int = 16) -> None:
        super().__init__()
        self.words = nn.Embedding(n_vocab, d_model)
        self.places = nn.Embedding(max_len, d_model)
        self.to_qkv = nn.Linear(d_model, 3 * d_model)
        self.norm = nn.LayerNorm(d_model)
        self.feed_forward = nn.Sequential(
            nn.Linear(d_model, 4 * d_model), nn.ReLU(), nn.Linear(4 * d_model, n_vocab)
        )

    def forward(self, ids: Tensor) -> Tensor:
        """ids (B, T) -> logits (B, T, V); position t has seen the words 0 … t."""
        x = self.words(ids) + self.places(torch.arange(ids.shape[1]))
        q, k, v = self.to_qkv(x).chunk(3, dim=-1)
        x = self.norm(x + F.scaled_dot_product_attention(q, k, v, is_causal=True))
        logits: Tensor = self.feed_forward(x)
        return logits


@sheet.blank(
    "Numbers 0, 1, 2 belong to SPECIAL, in this order; the words come after, sorted.",
    "A set of all words of all sentences (sentence.split()), sorted, enumerated.",
)
def build_vocabulary(sentences: list[str]) -> dict[str, int]:
    """Word -> id: SPECIAL first, then each word once, in alphabetical order."""
    words = {word for sentence in sentences for word in sentence.split()}
    return {word: number for number, word in enumerate([*SPECIAL, *sorted(words)])}


@sheet.blank("[BOS, …, EOS], with vocabulary[word] for each word of sentence.split().")
def encode(sentence: str, vocabulary: dict[str, int]) -> list[int]:
    """BOS, the ids of the words, EOS."""
    return [BOS, *(vocabulary[word] for word in sentence.split()), EOS]


@sheet.blank(
    "The longest row gives the width; shorter ones are filled with PAD at their end.",
    "torch.tensor([row + [PAD] * (width - len(row)) for row in rows])",
)
def pad(rows: list[list[int]]) -> Tensor:
    """Rows of ids -> (B, T) of int64, T the longest row, PAD behind the others."""
    width = max(map(len, rows))
    return torch.tensor([row + [PAD] * (width - len(row)) for row in rows])


@sheet.blank(
    "At position t the model reads ids[:, t] and should guess ids[:, t + 1].",
    "Inputs are all but the last column, targets all but the first.",
)
def inputs_and_targets(ids: Tensor) -> tuple[Tensor, Tensor]:
    """ids (B, T) -> inputs (B, T-1), targets (B, T-1): the target is the next word."""
    return ids[:, :-1], ids[:, 1:]


@sheet.blank(
    "F.cross_entropy takes logits, not probabilities, as (N, V), and targets as (N,).",
    "F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=PAD)",
)
def masked_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """logits (B, T, V), targets (B, T) -> the mean of -log p(target) over targets ≠ PAD."""
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=PAD)


@sheet.blank(
    "Five lines: clear old gradients, run the model, compute masked_loss, go backward, step.",
    "optimiser.zero_grad(), loss.backward(), optimiser.step(), and return loss.item().",
)
def train_step(
    model: nn.Module, optimiser: torch.optim.Optimizer, inputs: Tensor, targets: Tensor
) -> float:
    """Update the model once; -> the loss before the update."""
    optimiser.zero_grad()
    loss = masked_loss(model(inputs), targets)
    loss.backward()
    optimiser.step()
    return loss.item()


@sheet.blank(
    "Encode all sentences; in each epoch shuffle them and take some 32 at a time: pad, "
    "inputs_and_targets, train_step.",
    "torch.optim.Adam(model.parameters(), lr=3e-3) and ten epochs are enough.",
    seconds=60,
    compared=False,
)
def train(model: nn.Module, sentences: list[str], vocabulary: dict[str, int]) -> None:
    """Train the model in place."""
    rows = [encode(sentence, vocabulary) for sentence in sentences]
    optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
    draw = random.Random(0)
    for _ in range(10):
        draw.shuffle(rows)
        for start in range(0, len(rows), 32):
            inputs, targets = inputs_and_targets(pad(rows[start : start + 32]))
            train_step(model, optimiser, inputs, targets)


# ------------------------------------------------------------------ examples


@sheet.cases(build_vocabulary)
def _corpora() -> Iterator[Arguments]:
    yield {"sentences": ["a"]}
    yield {"sentences": ["the dog", "a dog"]}
    yield {"sentences": toy_sentences(20, seed=3)}


@sheet.cases(encode)
def _lines() -> Iterator[Arguments]:
    vocabulary = build_vocabulary(["the dog sees a cat"])
    for sentence in ("dog", "the dog sees the cat"):
        yield {"sentence": sentence, "vocabulary": vocabulary}


@sheet.cases(pad)
def _rows() -> Iterator[Arguments]:
    yield {"rows": [[1, 2]]}
    yield {"rows": [[1, 3, 2], [1, 2]]}
    yield {"rows": [[1, 2], [1, 3, 4, 5, 2], [1, 3, 2]]}


@sheet.cases(inputs_and_targets)
def _padded() -> Iterator[Arguments]:
    yield {"ids": torch.tensor([[BOS, 3, EOS]])}
    yield {"ids": torch.tensor([[BOS, 3, 4, EOS], [BOS, 5, EOS, PAD]])}


@sheet.cases(masked_loss)
def _guesses() -> Iterator[Arguments]:
    yield {"logits": torch.tensor([[[0.0, 0.0, 1.0]]]), "targets": torch.tensor([[2]])}
    yield {
        "logits": torch.tensor([[[0.0, 3.0, 1.0], [5.0, 0.0, 0.0]]]),
        "targets": torch.tensor([[2, PAD]]),
    }
    rng = torch.Generator().manual_seed(1)
    targets = torch.tensor([[3, 4, 2, PAD], [5, 2, PAD, PAD], [3, 3, 4, 2]])
    yield {"logits": torch.randn(3, 4, 6, generator=rng), "targets": targets}


@sheet.cases(train_step)
def _batches() -> Iterator[Arguments]:
    yield {"inputs": torch.tensor([[BOS, 3]]), "targets": torch.tensor([[3, EOS]])}
    yield {
        "inputs": torch.tensor([[BOS, 3, 4], [BOS, 5, EOS]]),
        "targets": torch.tensor([[3, 4, EOS], [5, EOS, PAD]]),
    }


@sheet.use(train_step)
def _three_steps(thing: object, inputs: Tensor, targets: Tensor) -> dict[str, float]:
    """The loss of three steps in turn, and what the model's loss is in the end."""
    assert callable(thing)
    torch.manual_seed(1)
    model = NextWord(6, d_model=4)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.3)
    losses = {f"loss of step {i}": thing(model, optimiser, inputs, targets) for i in (1, 2, 3)}
    with torch.no_grad():
        return losses | {"loss afterwards": masked_loss(model(inputs), targets).item()}


@sheet.cases(train)
def _training() -> Iterator[Arguments]:
    yield {"n_sentences": 400}


@sheet.use(train)
def _held_out_loss(thing: object, n_sentences: int) -> float:
    """The loss on new sentences, in nats a word, after a training."""
    assert callable(thing)
    sentences = toy_sentences(n_sentences, seed=1)
    vocabulary = build_vocabulary(sentences)
    torch.manual_seed(1)
    model = NextWord(len(vocabulary))
    thing(model, sentences, vocabulary)
    rows = [encode(sentence, vocabulary) for sentence in toy_sentences(200, seed=2)]
    inputs, targets = inputs_and_targets(pad(rows))
    with torch.no_grad():
        return masked_loss(model.eval()(inputs), targets).item()


def unigram_loss(n_sentences: int) -> float:
    """What counting the words of the training sentences reaches on the new ones, in nats a word."""
    words = [f"{one} <eos>".split() for one in toy_sentences(n_sentences, seed=1)]
    counts = Counter(word for sentence in words for word in sentence)
    new = [word for one in toy_sentences(200, seed=2) for word in f"{one} <eos>".split()]
    return -sum(math.log(counts[word] / counts.total()) for word in new) / len(new)


# ------------------------------------------------------------------ mistakes and laws


@sheet.mistake(build_vocabulary, "the special ids are missing: <pad>, <bos>, <eos> are 0, 1 and 2")
def _no_special(sentences: list[str]) -> dict[str, int]:
    words = {word for sentence in sentences for word in sentence.split()}
    return {word: number for number, word in enumerate(sorted(words))}


@sheet.mistake(
    build_vocabulary, "your words are numbered as they come: sort them, so that ids can be repeated"
)
def _unsorted(sentences: list[str]) -> dict[str, int]:
    words = dict.fromkeys(word for sentence in sentences for word in sentence.split())
    return {word: number for number, word in enumerate([*SPECIAL, *words])}


@sheet.mistake(build_vocabulary, "you number letters: a sentence is split at its spaces")
def _letters(sentences: list[str]) -> dict[str, int]:
    return {one: number for number, one in enumerate([*SPECIAL, *sorted({*"".join(sentences)})])}


@sheet.mistake(encode, "<bos> and <eos> are missing: a model must learn where to begin and to end")
def _bare(sentence: str, vocabulary: dict[str, int]) -> list[int]:
    return encode(sentence, vocabulary)[1:-1]


@sheet.mistake(encode, "<bos> is missing at the beginning")
def _no_beginning(sentence: str, vocabulary: dict[str, int]) -> list[int]:
    return encode(sentence, vocabulary)[1:]


@sheet.mistake(encode, "<eos> is missing at the end: the model would never learn to stop")
def _no_end(sentence: str, vocabulary: dict[str, int]) -> list[int]:
    return encode(sentence, vocabulary)[:-1]


@sheet.mistake(pad, "you pad on the left: padding stands behind the words")
def _left(rows: list[list[int]]) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([[PAD] * (width - len(row)) + row for row in rows])


@sheet.mistake(pad, "you cut the rows to the shortest: no word may be lost")
def _cut(rows: list[list[int]]) -> Tensor:
    width = min(map(len, rows))
    return torch.tensor([row[:width] for row in rows])


@sheet.mistake(pad, "you pad with <eos>: PAD is 0, and the loss leaves only PAD out")
def _with_ends(rows: list[list[int]]) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([row + [EOS] * (width - len(row)) for row in rows])


@sheet.mistake(
    inputs_and_targets, "targets are the inputs: the model would learn to copy; shift by one"
)
def _copied(ids: Tensor) -> tuple[Tensor, Tensor]:
    return ids[:, :-1], ids[:, :-1]


@sheet.mistake(inputs_and_targets, "nothing is shifted: the target at t is the word at t + 1")
def _unshifted(ids: Tensor) -> tuple[Tensor, Tensor]:
    return ids, ids


@sheet.mistake(inputs_and_targets, "inputs and targets are swapped: the model would guess the past")
def _swapped(ids: Tensor) -> tuple[Tensor, Tensor]:
    return ids[:, 1:], ids[:, :-1]


@sheet.mistake(inputs_and_targets, "you shift along the batch: sentences are rows, words columns")
def _along_the_batch(ids: Tensor) -> tuple[Tensor, Tensor]:
    return ids[:-1], ids[1:]


@sheet.mistake(masked_loss, "padding counts: leave targets that are PAD out (ignore_index=PAD)")
def _padding_counts(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


@sheet.mistake(masked_loss, "you return a sum: take the mean, so that batches of any size compare")
def _summed(logits: Tensor, targets: Tensor) -> Tensor:
    flat = logits.flatten(0, 1), targets.flatten()
    return F.cross_entropy(*flat, ignore_index=PAD, reduction="sum")


@sheet.mistake(
    masked_loss, "padding is left out of the sum but counted in the mean: divide by the words alone"
)
def _wrong_mean(logits: Tensor, targets: Tensor) -> Tensor:
    return _summed(logits, targets) / targets.numel()


@sheet.mistake(
    masked_loss, "a softmax too many: F.cross_entropy takes logits and has one of its own"
)
def _softmax_twice(logits: Tensor, targets: Tensor) -> Tensor:
    return masked_loss(logits.softmax(dim=-1), targets)


@sheet.mistake(masked_loss, "you take a mean of the sentences' means: every word counts the same")
def _mean_of_means(logits: Tensor, targets: Tensor) -> Tensor:
    rows = zip(logits, targets, strict=True)
    return torch.stack([masked_loss(one[None], other[None]) for one, other in rows]).mean()


@sheet.mistake(
    train_step,
    "old gradients are not cleared: they add up from step to step; optimiser.zero_grad()",
)
def _accumulating(
    model: nn.Module, optimiser: torch.optim.Optimizer, inputs: Tensor, targets: Tensor
) -> float:
    loss = masked_loss(model(inputs), targets)
    loss.backward()
    optimiser.step()
    return loss.item()


@sheet.mistake(
    train_step, "the model does not change: after loss.backward() comes optimiser.step()"
)
def _no_step(
    model: nn.Module, optimiser: torch.optim.Optimizer, inputs: Tensor, targets: Tensor
) -> float:
    return masked_loss(model(inputs), targets).item()


@sheet.mistake(train_step, "you return the loss after the update: return the one before")
def _loss_after(
    model: nn.Module, optimiser: torch.optim.Optimizer, inputs: Tensor, targets: Tensor
) -> float:
    train_step(model, optimiser, inputs, targets)
    return masked_loss(model(inputs), targets).item()


@sheet.mistake(train, "your training does not change the model")
def _idle(model: nn.Module, sentences: list[str], vocabulary: dict[str, int]) -> None:
    pass


@sheet.law(train)
def _below_unigrams(result: float, n_sentences: int) -> str | None:
    bound = unigram_loss(n_sentences)
    if result < bound:
        return None
    return (
        f"after your training the loss on new sentences is {result:.2f} nats a word; counting "
        f"words alone reaches {bound:.2f}"
    )
