"""Word vectors: of each word of some texts one, near to those of words that keep its company.

They are learned by skip-gram with negative samples (Mikolov et al. 2013). A run tells the nearest
words of a word, and embeddings of other tasks begin as its vectors: ``train.vectors=RUN``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from typing_extensions import override

from regard.checkpoints.run_folder import RunFolder
from regard.core.errors import ConfigError, DataError
from regard.data.batch import Batch
from regard.data.corpora import read_corpus
from regard.data.examples import IdTable
from regard.data.neighbours import (
    Neighbourhood,
    fixed_neighbours,
    neighbour_stream,
    word_counts,
    word_table,
)
from regard.data.records import Labelled
from regard.data.splits import Data, load_records
from regard.data.stream import Stream
from regard.models.presets import resolve_for
from regard.models.skip_gram import SkipGram, SkipGramConfig
from regard.tasks import edits
from regard.tasks.base import TASKS, Evaluation, Prepared, Scoring
from regard.tasks.encoding import NearText, Vectors
from regard.tasks.look import Look, Prediction
from regard.tasks.opening import (
    SHARED,
    TrainedRun,
    check_memory,
    check_vocabulary,
    load_tokenizer,
    one_text,
    open_run,
)
from regard.tasks.reading_verbs import NEIGHBOURS
from regard.tasks.recipe import Recipe
from regard.tasks.texts import TextTask
from regard.tasks.verb import Form, Unit
from regard.text.settings import TEXT_SETTINGS
from regard.text.tokenizer import Tokenizer
from regard.training.distributed import divided
from regard.training.flops import BACKWARD
from regard.training.losses import Losses, Objective

RECORDS = "texts"
"""What a line of the data is: a text, or two that are read each by itself."""
SCORED_TOKENS = 4096
"""Words whose neighbours are scored at once."""


@dataclass(frozen=True, slots=True, repr=False)
class WordVectors(TrainedRun):
    """Trained vectors with all they need to be used."""

    folder: RunFolder
    recipe: Recipe
    tokenizer: Tokenizer
    model: SkipGram
    device: torch.device

    @property
    @override
    def reader(self) -> Tokenizer:
        return self.tokenizer

    @property
    def words(self) -> tuple[str, ...]:
        """All words, the most frequent first."""
        return tuple(self.tokenizer.tokens(spoken_ids(self.tokenizer)))

    @property
    def vectors(self) -> Vectors:
        """The vectors of the ``words`` (V, D)."""
        rows = self.model.tokens.weight.detach()[spoken_ids(self.tokenizer)]
        return rows.float().cpu().numpy()

    def neighbours(self, text: str, n: int = 5) -> list[NearText]:
        """The ``n`` words nearest to a word by their cosine, or to the mean of several.

        What is asked for is not among them.
        """
        if n < 1:
            raise ConfigError(f"n={n} words were asked for; ask for at least 1")
        asked = self.tokenizer.tokens(self._known(text))
        self.warn_of_unknown(text)
        words, unit = self.words, _unit(self.vectors)
        cosines = unit @ _unit(unit[[words.index(one) for one in asked]].mean(axis=0))
        order = np.argsort(-cosines, kind="stable").tolist()
        return [NearText(words[i], float(cosines[i])) for i in order if words[i] not in asked][:n]

    def _known(self, text: str) -> list[int]:
        """The ids of the words of a text that have vectors; a text without any is refused."""
        spoken = {*spoken_ids(self.tokenizer)}
        ids = [one for one in self.tokenizer.encode(one_text(text)) if one in spoken]
        if not ids:
            raise DataError(self.nothing_known(text) or "there is no word in an empty text")
        return ids

    def explain(self, text: str, edit: Any = ()) -> Look:
        """The words of a text; vectors look at nothing."""
        if edits.edits_from(edit):
            raise ConfigError("word vectors have no attention, so there is nothing to change")
        tokens = tuple(self.tokenizer.tokens(self._known(text)))
        vector = Prediction("vector", "")
        told: dict[str, Any] = {"source": text, "source_tokens": tokens, "outcome": vector}
        return Look.of({}, target_tokens=(), answer="", task=self.task, **told)

    def evaluate_split(self, split: str = "test") -> Evaluation:
        """Scores on a split of the data the run was trained with."""
        return self.scored(load_records(self.recipe.data, RECORDS).split(split), split)

    def scored(self, examples: Sequence[Labelled], split: str) -> Evaluation:
        """How well neighbours are told from words that are drawn by their frequency there."""
        table = read_words(all_texts(examples), self.tokenizer)
        near = neighbourhood(table, self.model.config, split)
        found = telling_apart(self.model, fixed_neighbours(table, near, SCORED_TOKENS), self.device)
        named = {"task": self.task, "split": split, "n": len(examples)}
        return Evaluation({**named, **found}, [])


def spoken_ids(tokenizer: Tokenizer) -> list[int]:
    """The ids that stand for words."""
    silent = {*tokenizer.special_ids.values()}
    return [number for number in range(tokenizer.n_vocab) if number not in silent]


def all_texts(examples: Sequence[Labelled]) -> list[str]:
    """The texts of examples, each by itself."""
    return [text for one in examples for text in (one.text, one.other) if text is not None]


def read_words(texts: Sequence[str], tokenizer: Tokenizer) -> IdTable:
    """Texts as ids of words; a word that is not known leaves no gap."""
    return word_table(tokenizer.encode_batch(texts), {*tokenizer.special_ids.values()})


def neighbourhood(table: IdTable, config: SkipGramConfig, split: str) -> Neighbourhood:
    """What is near in the texts of a split, by the settings of a model."""
    how = config.model_dump(include={"context", "n_negatives", "threshold"})
    return Neighbourhood.of(word_counts(table, config.n_vocab), split, **how)


def _unit(rows: Vectors) -> Vectors:
    return rows / np.maximum(np.linalg.norm(rows, axis=-1, keepdims=True), 1e-12)


def skip_gram_loss(products: Tensor) -> Tensor:
    """-log σ(w·c) - Σ log σ(-w·n), summed over pairs.

    Of the products (N, 1 + K) of a word with its neighbour c, and with K words n that are none.
    """
    near, others = products[:, 0], products[:, 1:]
    return -F.logsigmoid(near).sum() - F.logsigmoid(-others).sum()


class SkipGramLoss(Objective):
    """Neighbours are told from words that were drawn."""

    def __call__(self, model: SkipGram, batch: Batch) -> Losses:
        """Summed over the pairs of a batch."""
        products = model(batch.words, batch.contexts).float()
        return Losses.of("skip_gram", skip_gram_loss(products), batch.count)


@torch.inference_mode()
def telling_apart(
    model: SkipGram, batches: Sequence[Batch], device: torch.device
) -> dict[str, float]:
    """The loss of a pair, and how often a neighbour is nearer than all that were drawn."""

    def judged(given: Batch) -> tuple[float, int]:
        batch = given.to(device)
        products = model(batch.words, batch.contexts).float()
        n_right = int((products[:, 0] > products[:, 1:].amax(dim=1)).sum())
        return skip_gram_loss(products).item(), n_right

    found, n = divided(batches, judged), sum(one.count for one in batches)
    return {"loss": sum(one[0] for one in found) / n, "accuracy": sum(one[1] for one in found) / n}


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedVectors(Prepared):
    """Texts, and vectors of their words."""

    criteria = ("loss", "accuracy")
    config: SkipGramConfig
    model: SkipGram
    data: Data[Labelled]
    tokenizer: Tokenizer
    train: IdTable
    valid: IdTable

    @property
    @override
    def size(self) -> dict[str, int]:
        return {"training texts": len(self.train), "vocabulary": self.tokenizer.n_vocab}

    @property
    @override
    def vocabularies(self) -> tuple[Tokenizer, ...]:
        return (self.tokenizer,)

    @override
    def stream(self) -> Stream:
        settings, near = self.recipe.train, neighbourhood(self.train, self.config, "train")
        how = {"batch_tokens": settings.batch_tokens, "seed": settings.seed}
        return neighbour_stream(self.train, near, **how)

    @override
    def objective(self) -> SkipGramLoss:
        return SkipGramLoss()

    @override
    def validation(self) -> Scoring:
        near = neighbourhood(self.valid, self.config, "valid")
        batches = fixed_neighbours(self.valid, near, SCORED_TOKENS)
        return Scoring(lambda model: telling_apart(model, batches, self.device))

    @override
    def flops(self, batch: Batch) -> float:
        return BACKWARD * 2.0 * self.config.d_model * batch.contexts.numel()

    @override
    def example(self, number: int) -> str:
        return all_texts(self.data.splits["train"])[number]

    @property
    @override
    def test_sets(self) -> Sequence[str]:
        return self.data.test_sets

    @override
    def scored(self, run: WordVectors, split: str) -> Evaluation:
        return run.scored(self.data.split(split), split)

    @override
    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / SHARED)


class VectorsTask(TextTask):
    """Texts, and vectors of their words."""

    name, verbs, unit, attends = "vectors", (NEIGHBOURS,), Unit("pair", "pairs"), "bert"
    heeds = TEXT_SETTINGS | {"data.columns"}
    smallest: ClassVar[Mapping[str, Any]] = {"n_vocab": 9}
    config, searchable = SkipGramConfig, False
    of_sentences = ({"text": "dog"}, {"text": "rouge"}, {"text": "loves"})

    @override
    def prepare(
        self,
        recipe: Recipe,
        device: torch.device,
        *,
        begun: Path | None = None,
        cache: Path | None = None,  # ids of words are made as fast
    ) -> PreparedVectors:
        if recipe.text.kind != "word":
            raise ConfigError(
                f"text.kind={recipe.text.kind}: vectors are learned of words; set text.kind=word"
            )
        if recipe.train.compile is True:
            raise ConfigError("train.compile=true: two tables gain nothing by it; leave it at auto")
        data = load_records(recipe.data, RECORDS)
        texts = {name: all_texts(data.splits[name]) for name in ("train", "valid")}
        if begun is None:
            tokenizer = Tokenizer.train(texts["train"], recipe.text)
        else:
            tokenizer = load_tokenizer(begun)
        tables = {name: read_words(some, tokenizer) for name, some in texts.items()}
        torch.manual_seed(recipe.train.seed)
        sizes = {"n_vocab": tokenizer.n_vocab, "pad_id": tokenizer.specials.pad}
        config = resolve_for(self.name, SkipGramConfig, recipe.model, **sizes)
        assert isinstance(config, SkipGramConfig), "only skip-gram has this task"
        check_memory(config, device)
        return PreparedVectors(
            recipe=recipe,
            config=config,
            model=SkipGram(config).to(device),
            notes=data.notes,
            device=device,
            data=data,
            tokenizer=tokenizer,
            **tables,
        )

    @override
    def load(self, path: str | Path, *, device: str | None = None) -> WordVectors:
        folder, recipe, model, place = open_run(path, self.name, NEIGHBOURS.wants, device)
        tokenizer = load_tokenizer(folder.path, recipe.data)
        check_vocabulary(folder, tokenizer, model.config.n_vocab)
        return WordVectors(folder, recipe, tokenizer, model, place)

    @override
    def score_file(self, run: WordVectors, path: Path, **options: Any) -> Evaluation:
        self.options_of(options)
        corpus = read_corpus(str(path), RECORDS, run.recipe.data)
        found = run.scored(corpus.examples, path.name)
        return Evaluation(found.scores, [], tuple(corpus.notes(path.name)))

    @override
    def form(self, run: WordVectors) -> Form:
        return Form(
            label="A word",
            go="Find",
            answer="Nearest words",
            hint="Numbers are cosines: 1 means the same direction.",
            about="finds words of the same company",
            stands="The words stand.",
            views=(),
            edits=(),
            view="nearest",
        )

    @override
    def tokenizers(self, run: WordVectors) -> tuple[Tokenizer, None]:
        return run.tokenizer, None


VECTORS = VectorsTask()
TASKS.add(VECTORS.name)(VECTORS)
