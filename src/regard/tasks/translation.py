"""Translation: a sentence is read, and its like in another language written."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress, islice
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import torch
from typing_extensions import override

from regard.checkpoints.run_folder import RunFolder, fill, load_scores, read_weights
from regard.core.errors import CheckpointError, ConfigError, DataError
from regard.data.alignments import read_aligned
from regard.data.batch import Batch
from regard.data.corpora import read_corpus
from regard.data.examples import (
    BpeDropoutTexts,
    IdTable,
    LongRule,
    Texts,
    encode_pairs,
    encode_table,
    stored_table,
    within,
)
from regard.data.pair_batches import (
    ordered_batches,
    packed_stream,
    padded_stream,
    text_lengths,
    tiled_stream,
)
from regard.data.records import Pair
from regard.data.settings import Files
from regard.data.shard_windows import ShardedPairs
from regard.data.shards import Manifest
from regard.data.splits import Data, load_records, split_of
from regard.data.stream import Stream
from regard.decoding.ensemble import Ensemble
from regard.decoding.settings import GENERATING, DecodeSettings
from regard.evaluation.metrics import values
from regard.evaluation.text_metrics import bleu
from regard.inspection.heads import Ids
from regard.models.base import SequenceModel
from regard.models.presets import build, resolve
from regard.models.settings import SequenceConfig, without_dropout
from regard.tasks.base import TASKS, Evaluation, JudgedRun, Prepared
from regard.tasks.ensembles import ensemble_of
from regard.tasks.examples import PageExample
from regard.tasks.opening import Tokenizers, check_memory, load_tokenizers, train_tokenizers
from regard.tasks.recipe import Recipe
from regard.tasks.rewards import SampledTranslations, check_rewarded, reward_of
from regard.tasks.sharded import (
    SHARD_SETTINGS,
    open_pairs,
    shard_pairs,
    shard_tokenizers,
    weights,
)
from regard.tasks.texts import (
    ELSEWHERE,
    Reading,
    Scorer,
    Subject,
    TextTask,
    check_data,
)
from regard.tasks.translating import SCORE_TOKENS, decode
from regard.tasks.translation_scores import (
    alignment_scores,
    evaluate_pairs,
    evaluate_split,
    gold_scores_by_head,
    rules_by_measure,
)
from regard.tasks.translator import Run, load_translator
from regard.tasks.verb import TOKEN, Form
from regard.tasks.verbs import check_side, unknown_note
from regard.tasks.writing_verbs import TRANSLATE
from regard.text.settings import TEXT_SETTINGS
from regard.text.specials import END_ID, PAD_ID
from regard.text.tokenizer import Tokenizer
from regard.training.distributed import divided
from regard.training.expected_reward import ExpectedReward
from regard.training.flops import BACKWARD, FlopFormula, flop_formula
from regard.training.losses import Objective, cross_entropy
from regard.training.token_loss import TokenLoss, check_loss_on

OWN_METRICS = ("bleu", "exact_match")
"""Of a validation, beside the loss and what the recipe names."""
NO_DROPOUT = "dropout is off: what is rewarded is sampled from the whole model"
SCENE = 70
"""Letters of a source whose attention can be read at a glance."""
VALID_SENTENCES = 200
"""So many are translated at each validation: enough for a curve, and quick."""


class TranslationValidation:
    """An evaluator for the training loop: loss of the whole set, translations of a part of it."""

    def __init__(self, prepared: PreparedTranslation) -> None:
        training, pairs = prepared.recipe.train, prepared.data.splits["valid"][:VALID_SENTENCES]
        self.objective = TokenLoss(training)
        self.batches = ordered_batches(prepared.valid, training.batch_tokens)
        self.count = sum(batch.count for batch in self.batches)
        self.sources = [example.source for example in prepared.valid[:VALID_SENTENCES]]
        self.references = [pair.target for pair in pairs]
        self.target = prepared.tokenizers.target
        self.settings = prepared.recipe.decode.chosen(beam=1)
        self.device = prepared.device
        self.metrics = (*prepared.own_metrics, *training.metrics, *training.rewards)

    def __call__(self, model: SequenceModel) -> Mapping[str, float]:
        """``loss``, and the metrics of greedy search."""
        texts = self.write(model)
        return {"loss": self.loss(model), **values(self.metrics, texts, self.references)}

    def write(self, model: SequenceModel, settings: DecodeSettings | None = None) -> list[str]:
        """The translations of a part of the set."""
        found = decode(model, self.sources, settings or self.settings, device=self.device)
        return [self.target.decode(best[0].ids) for best in found]

    def rehearse(self, model: SequenceModel) -> None:
        """As much as a validation; a fresh model is made to write as much as the references are."""
        self.loss(model)
        mean_length = round(self.count / sum(len(batch.numbers) for batch in self.batches))
        self.write(model, self.settings.model_copy(update={"max_len": mean_length}))

    @torch.inference_mode()
    def loss(self, model: SequenceModel) -> float:
        """The loss per token, smoothed as in training.

        Without smoothing, a model that was told to doubt would look worse the better it learned it.
        """

        def loss_of(batch: Batch) -> float:
            return self.objective(model, batch.to(self.device)).total.item()

        return sum(divided(self.batches, loss_of)) / self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedTranslation(Prepared):
    """Pairs, tokenizers and a fresh translator."""

    config: SequenceConfig
    model: SequenceModel
    data: Data[Pair]
    tokenizers: Tokenizers
    pairs: Sequence[Pair]
    """Those of ``train``, in its order; none where they lie in shards."""
    train: IdTable | ShardedPairs
    valid: IdTable
    texts: Texts | ShardedPairs
    """What is trained on: ``train``, perhaps segmented anew each epoch."""
    formula: FlopFormula
    takes = "texts"

    @property
    def own_metrics(self) -> tuple[str, ...]:
        """What a validation computes of texts by itself."""
        return OWN_METRICS

    @property
    @override
    def criteria(self) -> tuple[str, ...]:
        return ("loss", *self.own_metrics)

    @property
    @override
    def size(self) -> dict[str, int]:
        return {"training pairs": len(self.train), "vocabulary": self.tokenizers.target.n_vocab}

    @property
    @override
    def vocabularies(self) -> tuple[Tokenizer, ...]:
        """Of source and target."""
        return (self.tokenizers.source, self.tokenizers.target)

    @override
    def stream(self) -> Stream:
        settings = self.recipe.train
        how: dict[str, Any] = {"batch_tokens": settings.batch_tokens, "seed": settings.seed}
        if self.same_shapes:
            return packed_stream(self.texts, **how)
        if self.few_shapes:
            return tiled_stream(self.texts, **how, longest=self.config.longest)
        return padded_stream(self.texts, **how, loss_on=self.recipe.data.loss_on)

    @property
    @override
    def same_shapes(self) -> bool:
        """Where texts lie end to end: on a GPU, if the model can read them so."""
        return self.config.packs and self._all_known

    @property
    @override
    def few_shapes(self) -> bool:
        """Where a step is many small kernels: on a GPU, if the model does not read packed texts."""
        return self.config.records and self._all_known

    @property
    def _all_known(self) -> bool:
        """Whether what a GPU computes is known before: no words are drawn on the way."""
        settings = self.recipe.train
        forced = settings.teacher_forcing == 1 and not settings.rewards
        return self.device.type == "cuda" and forced

    @override
    def objective(self) -> Objective:
        settings = self.recipe.train
        likelihood = TokenLoss(settings, compiled=self.compiled)
        if not settings.rewards:
            return likelihood
        draw = SampledTranslations(
            n=settings.samples,
            reward=reward_of(settings.objective),
            references=[pair.target for pair in self.pairs],
            say=self.tokenizers.target.decode,
            max_len=self.recipe.decode.max_len,
        )
        return ExpectedReward(settings, likelihood, draw)

    @override
    def validation(self) -> TranslationValidation:
        return TranslationValidation(self)

    @override
    def flops(self, batch: Batch) -> float:
        settings = self.recipe.train
        if batch.packed:
            bounds = (batch.source_bounds, batch.target_bounds)
            return self.formula.training_each(*map(text_lengths, bounds))
        n_rows, n_source = batch.source.shape
        n_passes = 1.0
        if settings.rewards:  # samples are as long as references, about; written, then learned from
            n_passes += settings.samples * (1 + 1 / BACKWARD)
        return n_passes * self.formula.training(n_rows, n_source, batch.target_in.shape[1])

    @override
    def example(self, number: int) -> str:
        """Its source."""
        return self.tokenizers.source.decode(self.train[number].source)

    @property
    @override
    def test_sets(self) -> Sequence[str]:
        return self.data.test_sets

    @override
    def scored(self, run: Run, split: str) -> Evaluation:
        return evaluate_split(run, self.data, split)

    @override
    def judged(self, out: Path, test_sets: Sequence[str] | None) -> JudgedRun:
        """With some translations of each test set, two wrong ones first."""
        judged, samples = Prepared.judged(self, out, test_sets), []
        for name, evaluation in judged.evaluations.items():
            pairs = zip(self.data.splits[name], evaluation.outputs, strict=True)
            made = [(pair.source, text, pair.target) for pair, text in pairs]
            wrong = [one for one in made if one[1] != one[2]][:2]
            samples += [*wrong, *(one for one in made[:4] if one not in wrong)][: N_SAMPLES // 2]
        return replace(judged, samples=samples[:N_SAMPLES])

    @override
    def held_out(self) -> Sequence[Pair]:
        return self.data.splits["valid"]

    @override
    def save(self, folder: Path) -> None:
        self.tokenizers.save(folder)


def prepare_translation(
    recipe: Recipe,
    device: torch.device,
    *,
    begun: Path | None = None,
    cache: Path | None = None,
    records: str = "pair",
    long_lines: LongRule | None = None,
    kind: type[PreparedTranslation] = PreparedTranslation,
) -> PreparedTranslation:
    """Load or make the data, train tokenizers unless the run was begun, build the model.

    Where training texts come from files, their ids are kept in the folder ``cache``, if one is
    given. Another task says which ``records`` it reads and what becomes of long ones.
    """
    data, shards = load_records(recipe.data, records), recipe.data.shards
    init = None if recipe.train.init is None else RunFolder(Path(recipe.train.init))
    known = begun or (None if init is None else init.path)  # the weights there know no other ids
    if known is not None:
        tokenizers = load_tokenizers(known)
    elif shards is not None:
        tokenizers = shard_tokenizers(recipe)
    else:
        tokenizers = train_tokenizers(data.splits["train"], recipe.text)
    torch.manual_seed(recipe.train.seed)
    config = resolve(
        recipe.model,
        n_source_vocab=tokenizers.source.n_vocab,
        n_target_vocab=tokenizers.target.n_vocab,
        shared_vocab=tokenizers.shared,
    )
    check_loss_on(recipe.data.loss_on, config, recipe.train)
    if recipe.train.rewards:
        check_rewarded(config)
        config = without_dropout(config)
    check_memory(config, device)
    model = build(config)
    if init is not None and begun is None:  # snapshots hold all weights
        fill(model, read_weights(init), str(init.weights))
    cache = cache if recipe.data.world is None else None  # a world is made again as fast
    rule = long_lines or recipe.data.long_lines
    how = (tokenizers, config.max_len, rule)
    train: Encoded[IdTable] | Encoded[ShardedPairs]
    if shards is None:
        train = _encoded(data, "train", *how, cache)
    else:
        train = _sharded(recipe, records, *how)
    # TranslationValidation keeps its references, so its long lines are cut, never dropped.
    valid = _encoded(data, "valid", tokenizers, config.max_len, "truncate")
    told = (NO_DROPOUT,) if recipe.train.rewards else ()
    return kind(
        recipe=recipe,
        data=data,
        tokenizers=tokenizers,
        pairs=train.pairs,
        train=train.table,
        valid=valid.table,
        texts=_texts(recipe, train, tokenizers, config.max_len),
        config=config,
        formula=flop_formula(model, with_source=recipe.data.loss_on == "all"),
        model=model.to(device),
        notes=(*data.notes, *train.notes, *valid.notes, *told),
        device=device,
    )


T = TypeVar("T", IdTable, ShardedPairs)


class Encoded(NamedTuple, Generic[T]):
    """Pairs that fit, their ids, and a note on those that do not fit."""

    pairs: Sequence[Pair]
    table: T
    notes: tuple[str, ...]


def _encoded(
    data: Data[Pair],
    name: str,
    tokenizers: Tokenizers,
    max_len: int,
    rule: LongRule,
    cache: Path | None = None,
) -> Encoded[IdTable]:
    """A split as ids, of at most ``max_len`` positions a side; kept in files of a ``cache``."""
    pairs, sides = data.splits[name], (tokenizers.source, tokenizers.target)
    whole = encode_table(pairs, *sides) if cache is None else stored_table(pairs, *sides, cache)
    table, n_long = within(whole, max_len, rule)
    if n_long and rule == "drop":
        pairs = list(compress(pairs, whole.fits(max_len)))
    verb = "cut to" if rule == "truncate" else "left out, being longer than"
    note = f"{name}: {n_long} pairs {verb} max_len={max_len} tokens"
    return Encoded(pairs, table, (note,) if n_long else ())


def _sharded(
    recipe: Recipe, records: str, tokenizers: Tokenizers, max_len: int, rule: LongRule
) -> Encoded[ShardedPairs]:
    """Training pairs in the shards of a recipe. Their texts are not at hand, but as ids."""
    needed = {"text.bpe_dropout": recipe.text.bpe_dropout, "train.rewards": recipe.train.rewards}
    if asked := [name for name, value in needed.items() if value]:
        raise ConfigError(
            f"{' and '.join(asked)} needs the texts of all pairs, and data.shards has their ids; "
            "leave out one of them"
        )
    folder = open_pairs(recipe, records, tokenizers, max_len, rule)
    settings = {"seed": recipe.train.seed, "window_tokens": recipe.data.window_tokens}
    return Encoded((), ShardedPairs(folder, weights(recipe), **settings), folder.manifest.notes)


def _texts(
    recipe: Recipe,
    train: Encoded[IdTable] | Encoded[ShardedPairs],
    tokenizers: Tokenizers,
    max_len: int,
) -> Texts | ShardedPairs:
    """What is trained on."""
    share, sides = recipe.text.bpe_dropout, (tokenizers.source, tokenizers.target)
    if not share or not isinstance(train.table, IdTable):
        return train.table
    for tokenizer in sides:
        if tokenizer.kind != "bpe":
            raise ConfigError(
                f"text.bpe_dropout={share} needs a tokenizer of kind 'bpe', but that of "
                f"{recipe.train.init} is of kind {tokenizer.kind!r}; set it to 0"
            )
    seed = recipe.train.seed
    return BpeDropoutTexts(train.pairs, train.table, sides, share=share, seed=seed, max_len=max_len)


N_SAMPLES = 8

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
        return {"loss": loss, "bleu": bleu(run.translate(sources, beam=1), references)}

    return scores


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
            remedy = f"{ELSEWHERE}, or two files with --source and --reference"
            check_data(run.folder, run.recipe.data, remedy)
        data = load_records(run.recipe.data, self.records)
        found = self.scored_split(run, data, split or "test", **given)
        return replace(found, notes=(*data.notes, *found.notes))

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
        notes = (*([skipped] if corpus.n_empty else []), *unknown_note(words))
        found = self.scored_pairs(run, corpus.examples, split=name, **given)
        return replace(found, notes=(*notes, *found.notes))

    @override
    def score_alignments(self, run: Run, sentences: Path, gold: Path) -> Evaluation:
        scores = alignment_scores(run, read_aligned(sentences, gold))
        long = f"{scores.get('too_long')} sentences are too long for the model and left out"
        named = {"task": self.name, "split": sentences.name}
        return Evaluation({**named, **scores}, [], (long,) if "too_long" in scores else ())

    @override
    def subject(self, run: Run, split: str, n: int, data: Data[Pair] | None = None) -> Subject:
        if data is None:
            check_data(run.folder, run.recipe.data, PAIRS)
            data = load_records(run.recipe.data, self.records)
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
        for tokenizer, text in zip(self.tokenizers(run), texts, strict=True):
            check_side(run, at_most, tokenizer, text, able="can be looked at")

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
