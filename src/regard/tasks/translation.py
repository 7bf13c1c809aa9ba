"""Translation: a sentence is read, and its like in another language written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import torch
from typing_extensions import override

from regard.checkpoints.run_folder import load_scores
from regard.core.errors import CheckpointError, ConfigError, DataError
from regard.core.numbers import counted
from regard.data.alignments import read_aligned
from regard.data.batch import Batch
from regard.data.corpora import read_corpus
from regard.data.examples import (
    encode_pairs,
)
from regard.data.pair_batches import (
    ordered_batches,
)
from regard.data.records import Pair
from regard.data.settings import Files
from regard.data.shards import Manifest
from regard.data.splits import Data, load_records, split_of
from regard.decoding.ensemble import Ensemble
from regard.decoding.settings import GENERATING
from regard.evaluation.text_metrics import bleu
from regard.inspection.heads import Ids
from regard.models.base import SequenceModel
from regard.models.settings import SequenceConfig
from regard.tasks.base import TASKS, Evaluation
from regard.tasks.ensembles import ensemble_of
from regard.tasks.examples import PageExample
from regard.tasks.recipe import Recipe
from regard.tasks.sharded import (
    SHARD_SETTINGS,
    shard_pairs,
)
from regard.tasks.texts import (
    ELSEWHERE,
    NO_TEST,
    Reading,
    Scorer,
    Subject,
    TextTask,
    check_data,
)
from regard.tasks.translating import SCORE_TOKENS
from regard.tasks.translation_scores import (
    alignment_scores,
    evaluate_pairs,
    evaluate_split,
    gold_scores_by_head,
    rules_by_measure,
)
from regard.tasks.translation_training import prepare_translation
from regard.tasks.translator import Run, load_translator
from regard.tasks.verb import TOKEN, Form
from regard.tasks.verbs import check_side, unknown_note
from regard.tasks.writing_verbs import TRANSLATE
from regard.text.settings import TEXT_SETTINGS
from regard.text.specials import END_ID, PAD_ID
from regard.text.tokenizer import Tokenizer
from regard.training.losses import cross_entropy

BATCH_TOKENS = 2048
"""Weights take as much room as there are heads × tokens × the length of a sentence."""


def pair_readings(run: Run, pairs: Sequence[Pair]) -> Iterator[Reading]:
    """Pairs as a translator reads them, teacher forced."""
    examples = encode_pairs(pairs, run.tokenizers.source, run.tokenizers.target)
    for batch in ordered_batches(examples, BATCH_TOKENS):
        yield Reading((batch.source, batch.target_in), partial(_row_ids, run.model, batch))


def _row_ids(model: SequenceModel, batch: Batch, name: str) -> tuple[Ids, Ids]:
    """Whose rows and columns these are. In cross-attention a row is the token that it writes."""
    source = batch.source.numpy()
    if name == "encoder.self":
        return source, source
    if name == "decoder.self":
        target = batch.target_in
        target = torch.where(target == END_ID, PAD_ID, target)  # of a shorter one; nobody reads it
        read = model.read_ids(batch.source, target).numpy()
        return read, read
    return batch.target_out.numpy(), source


BLEU_SENTENCES = 100
"""So many are translated for each head: writing costs far more than judging."""


def pair_judge(run: Run, pairs: Sequence[Pair]) -> Scorer:
    """Of a translator: ``loss`` and ``bleu``.

    The loss is nats per token, the right tokens before it being given, without smoothing. BLEU is
    that of greedy search for the first pairs.
    """
    examples = encode_pairs(pairs, run.tokenizers.source, run.tokenizers.target)
    batches = [batch.to(run.device) for batch in ordered_batches(examples, SCORE_TOKENS)]
    sources = [pair.source for pair in pairs[:BLEU_SENTENCES]]
    references = [pair.target for pair in pairs[:BLEU_SENTENCES]]

    @torch.inference_mode()
    def scores() -> dict[str, float]:
        total = 0.0
        for batch in batches:
            logits = run.model(batch.source, batch.target_in)
            total += cross_entropy(logits, batch.target_out, pad=PAD_ID, label_smoothing=0.0).item()
        loss = total / sum(batch.count for batch in batches)
        return {"loss": loss, "bleu": bleu(run.written(sources, beam=1), references)}

    return scores


SCENE = 70
"""Letters of a source whose attention can be read at a glance."""
PAGE_VIEWS = ("lines", "matrix", "grid", "rollout", "beam", "heads")
PAGE_EDITS = ("ablate", "force", "temperature", "no_positions", "swap", "force_token")
PAIRS = "heads of a translator are measured on pairs of sentences: train it on with some"
"""What to do where there are none."""
PRONOUNS = {"en": ("it", "they", "he", "she"), "fr": ("il", "elle", "ils", "elles")}
"""Words of the built-in world that stand for others."""
_LABEL = re.compile(r"(?P<name>\S+) layer (?P<layer>\d+) (?:head (?P<head>\d+)|mean)")
LECTURES = {
    "en": (
        "the animal did not cross the street because it was too tired",
        "the animal did not cross the street because it was too wide",
        "john loves mary",
        "jane visits africa in september",
        "i am a student",
    ),
    "fr": (
        "l'animal n'a pas traversé la rue parce qu'il était trop fatigué",
        "l'animal n'a pas traversé la rue parce qu'elle était trop large",
        "john aime mary",
        "jane visite l'afrique en septembre",
        "je suis étudiant",
    ),
}


class TranslationTask(TextTask):
    """Pairs of sentences, and a model that reads one and writes the other."""

    name, unit = "translation", TOKEN
    hub_task = "translation"
    verbs = (TRANSLATE,)
    records: ClassVar[str] = "pair"
    """The kind of records that it learns from."""
    scored_split = staticmethod(evaluate_split)
    scored_pairs = staticmethod(evaluate_pairs)
    heeds = frozenset(
        {
            "data.columns",
            "data.long_lines",
            "data.loss_on",
            *SHARD_SETTINGS,
            "text.shared",
            "text.bpe_dropout",
            "train.init",
            "train.label_smoothing",
            "train.likelihood_weight",
            "train.metrics",
            "train.objective",
            "train.samples",
            "train.teacher_forcing",
            "decode.replace_unknown",
            "decode.coverage_penalty",
            *TEXT_SETTINGS,
            *GENERATING,
        }
    )
    smallest: ClassVar[Mapping[str, Any]] = {
        "n_source_vocab": 9,
        "n_target_vocab": 9,
        "shared_vocab": True,
    }
    attends, looks = "transformer or luong2015", frozenset({"target"})
    evaluation_options = frozenset({"beam"})

    config = SequenceConfig
    prepare = staticmethod(prepare_translation)
    load = staticmethod(load_translator)
    ensemble = staticmethod(ensemble_of)

    @override
    def shard(self, recipe: Recipe, *, n_workers: int, say: Callable[[str], None]) -> Manifest:
        rule = recipe.data.long_lines
        return shard_pairs(recipe, self.records, rule, n_workers=n_workers, say=say)

    @override
    def evaluate(
        self, run: Run, split: str | None = None, *, own: bool = True, **options: Any
    ) -> Evaluation:
        given = self.options_of(options)
        if own:
            files = "--source and --reference (source=, reference=)"
            remedy = f"{ELSEWHERE}, or two files with {files}"
            check_data(run.folder, run.recipe.data, remedy)
        data = load_records(run.recipe.data, self.records)
        name = split or ("test" if "test" in data.splits else data.test_sets[0])
        notes = (NO_TEST,) if split is None and name == "valid" else ()
        found = self.scored_split(run, data, name, **given)
        return replace(found, notes=(*notes, *data.notes, *found.notes))

    @override
    def score_file(self, run: Run, path: Path, **options: Any) -> Evaluation:
        return self._score(run, str(path), path.name, options)

    @override
    def score_pair(self, run: Run, source: Path, reference: Path, **options: Any) -> Evaluation:
        return self._score(run, (str(source), str(reference)), source.name, options)

    def _score(self, run: Run, files: Files, name: str, options: Mapping[str, Any]) -> Evaluation:
        given = self.options_of(options)
        corpus = read_corpus(files, self.records, run.recipe.data)
        skipped = f"{corpus.n_empty} lines skipped, being empty on one side or both"
        words = (word for pair in corpus.examples for word in run.unknown_words(pair.source))
        notes = (*([skipped] if corpus.n_empty else []), *unknown_note(words, run))
        found = self.scored_pairs(run, corpus.examples, split=name, **given)
        return replace(found, notes=(*notes, *found.notes))

    @override
    def score_alignments(self, run: Run, sentences: Path, gold: Path) -> Evaluation:
        scores = alignment_scores(run, read_aligned(sentences, gold))
        n = counted(scores.get("too_long", 0), "sentence")
        long = f"too long for the model and left out: {n}"
        named = {"task": self.name, "split": sentences.name}
        return Evaluation({**named, **scores}, [], (long,) if "too_long" in scores else ())

    def _data(self, run: Run) -> Data[Pair]:
        """What the run was trained with, where it may be read."""
        check_data(run.folder, run.recipe.data, PAIRS)
        return load_records(run.recipe.data, self.records)

    @override
    def records_of(self, run: Run, split: str) -> Sequence[Pair]:
        return split_of(self._data(run).splits, split)

    @override
    def subject(self, run: Run, split: str, n: int, data: Data[Pair] | None = None) -> Subject:
        if data is None:
            data = self._data(run)
        fitting = (
            pair for pair in split_of(data.splits, split) if run.fits(pair.source, pair.target)
        )
        pairs = list(islice(fitting, n))
        if not pairs:
            raise DataError(
                f"split {split!r} has no sentence that the model can read; measure on another split"
            )
        return Subject(
            run.model,
            run.device,
            lambda: pair_readings(run, pairs),
            pair_judge(run, pairs),
            split,
            len(pairs),
            notes=data.notes,
            known=lambda: gold_scores_by_head(run, pairs),
            facts={"n_bleu": min(len(pairs), BLEU_SENTENCES), **rules_by_measure(pairs)},
        )

    @override
    def check_look(self, run: Run, at_most: int, source: str, **more: Any) -> None:
        texts = (source, more.get("target") or "")
        for member in run.members:
            for tokenizer, text in zip(self.tokenizers(member), texts, strict=True):
                check_side(member, at_most, tokenizer, text, able="can be looked at")

    @override
    def given_subject(self, run: Run, texts: Sequence[str], name: str, n: int) -> Subject:
        raise ConfigError("heads of a translator are measured on pairs: choose a split of its data")

    @override
    def examples(self, run: Run) -> list[str]:
        data = run.recipe.data
        if data.world == "sentences":
            return list(LECTURES[data.direction.split("-")[0]])
        return [one["text"] for one in super().examples(run)]

    @override
    def asked_of(self, run: Run, records: Sequence[Pair]) -> Iterator[PageExample]:
        sources = (pair.source for pair in records)
        return ({"text": text} for text in sources if text.strip() and run.fits(text))

    @override
    def scenes(self, run: Run, records: Sequence[Pair]) -> Iterator[dict[str, str]]:
        """Pairs that can be read at a glance."""
        for pair in records:
            if 0 < len(pair.source) <= SCENE and run.fits(pair.source, pair.target):
                yield {"source": pair.source, "target": pair.target}

    @override
    def form(self, run: Run) -> Form:
        source, target = run.recipe.data.direction.split("-")
        together = isinstance(run.model, Ensemble)  # each member looks for itself
        return Form(
            label=f"A sentence ({source})",
            go="Translate",
            answer="Translation",
            hint="Each line is a sentence.",
            about=f"{source} → {target}",
            stands="The translation stands.",
            language=target,
            views=("beam",) if together else PAGE_VIEWS,
            edits=() if together else PAGE_EDITS,
            view="translation",
        )

    @override
    def tokenizers(self, run: Run) -> tuple[Tokenizer, Tokenizer]:
        return run.tokenizers.source, run.tokenizers.target

    @override
    def info(self, run: Run) -> dict[str, Any]:
        return {"antecedents": antecedents(run)}


def antecedents(run: Run) -> dict[str, Any] | None:
    """The head that finds antecedents best, as the run's scores tell: chosen on ``valid``.

    ``share`` is how often it finds them on ``test``, beside ``shuffled`` weights and a ``rule``
    that is blind to the words; ``head`` is None for the mean of a layer. ``written`` are pronouns
    of the target.
    """
    try:
        scores = load_scores(run.folder).get("scores")
    except CheckpointError:  # the run has not come to its end
        return None
    test = scores.get("test") if isinstance(scores, Mapping) else None
    if not isinstance(test, Mapping):
        return None
    place = _LABEL.fullmatch(str(test.get("antecedent_accuracy_by")))
    pronouns, written = map(PRONOUNS.get, run.recipe.data.direction.split("-"))
    if place is None or pronouns is None or run.recipe.data.world != "sentences":
        return None
    head = None if place["head"] is None else int(place["head"])
    ends = {"share": "", "shuffled": "_shuffled", "rule": "_rule"}
    told = {name: test.get(f"antecedent_accuracy{end}") for name, end in ends.items()}
    told |= {"pronouns": pronouns, "written": written}
    return {"name": place["name"], "layer": int(place["layer"]), "head": head, **told}


TASKS.add("translation")(TranslationTask())
