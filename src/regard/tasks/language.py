"""Language: a text is written on, and every token is judged by those before it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, cast

import torch
from torch import Tensor
from typing_extensions import override

from regard.checkpoints.run_folder import RunFolder, fill, load_config, load_model
from regard.core.errors import CheckpointError, ConfigError, DataError
from regard.core.files import read_text, write_whole
from regard.core.settings import parse
from regard.data.batch import Batch
from regard.data.corpora import read_corpus
from regard.data.language import (
    ShardedTape,
    Tape,
    Texts,
    prompted_splits,
    read_texts,
    text_splits,
    window_stream,
)
from regard.data.shard_windows import ShardedIds
from regard.data.shards import Manifest
from regard.data.splits import split_of, test_sets_of
from regard.data.stream import Stream
from regard.data.worlds.prompted import PromptedSplits
from regard.decoding.settings import GENERATING
from regard.models.base import LazyLogits
from regard.models.decoder import LanguageModel
from regard.models.presets import build, resolve_for
from regard.models.settings import DecoderConfig
from regard.tasks.base import TASKS, Evaluation, JudgedRun, Prepared, Scoring
from regard.tasks.examples import EXAMPLES, PageExample
from regard.tasks.generation import Framing, framing_for
from regard.tasks.language_scores import judged, summed_up
from regard.tasks.opening import SHARED, TOKENIZER_FILES, check_memory, load_tokenizer
from regard.tasks.recipe import Recipe
from regard.tasks.sharded import (
    SHARD_SETTINGS,
    open_texts,
    shard_texts,
    shard_tokenizers,
    weights,
)
from regard.tasks.texts import (
    TEXTS_INSTEAD,
    Reading,
    Subject,
    TextTask,
    batched,
    check_data,
    given_texts,
    padded,
    special_ids,
)
from regard.tasks.verb import TOKEN, Form
from regard.tasks.writer import Writer, load_writer
from regard.tasks.writing_verbs import GENERATE
from regard.text.chat import TEMPLATE
from regard.text.settings import TEXT_SETTINGS
from regard.text.tokenizer import Tokenizer
from regard.text.words import spans
from regard.training.flops import TextFlops, text_flops
from regard.training.losses import Losses, Objective, cross_entropy
from regard.training.settings import TrainSettings


def begin_language(
    recipe: Recipe, tokenizer: Tokenizer, device: torch.device, begun: Path | None
) -> tuple[LanguageModel, tuple[str, ...]]:
    """A model before its first step, fresh or that of ``train.init``, and a note on the latter.

    A run ``begun`` keeps its configuration; its weights are in its snapshots, and what became of
    ``train.init`` does not matter. What the recipe says of a model beyond preset and size changes
    that of another run.
    """
    if recipe.train.init is None or begun is not None:
        if begun is None:
            config = resolve_for("language", DecoderConfig, recipe.model, n_vocab=tokenizer.n_vocab)
        else:
            config = cast("DecoderConfig", load_config(RunFolder(begun)))
        check_memory(config, device)
        return cast("LanguageModel", build(config)), ()
    init = RunFolder(Path(recipe.train.init))
    old = load_model(init)
    if not isinstance(old, LanguageModel):
        family = getattr(getattr(old, "config", None), "family", "unknown")
        raise ConfigError(
            f"train.init: {init.path} holds a model of the family {family!r}, and this needs a "
            "language model"
        )
    asked = {**old.config.model_dump(), **recipe.model.given()}
    config = parse(DecoderConfig, asked, "model")
    check_memory(config, device)
    model = LanguageModel(config)
    weights = {name: weight.detach() for name, weight in old.named_parameters()}
    try:
        fill(model, weights, f"train.init: what {init.path} holds")
    except CheckpointError as error:
        raise CheckpointError(
            f"{error}; leave the sizes out of the section model, they come with the run"
        ) from None
    return model, (f"the model begins as that of {init.path}",)


class NextTokenLoss(Objective):
    """Cross-entropy of every next token, summed over a batch of windows, all of them full."""

    def __init__(self, settings: TrainSettings, *, compiled: bool = False) -> None:
        self.smoothing = settings.label_smoothing
        self._lazy_logits = torch.compile(_lazy_logits) if compiled else _lazy_logits

    def __call__(self, model: LanguageModel, batch: Batch) -> Losses:
        """Without the logits of all tokens at once."""
        logits = self._lazy_logits(model, batch.target_in)
        loss = cross_entropy(logits, batch.target_out, label_smoothing=self.smoothing)
        return Losses.of("cross_entropy", loss, batch.count)


def _lazy_logits(model: LanguageModel, ids: Tensor) -> LazyLogits:
    return model(ids, lazy=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedLanguage(Prepared):
    """Texts end to end, their tokenizer and a fresh language model."""

    validated_on = "word"
    config: DecoderConfig
    model: LanguageModel
    splits: Mapping[str, Texts]
    exercises: PromptedSplits
    """The tasks that the texts are made of, where they are."""
    framing: Framing
    tape: Tape | ShardedTape
    formula: TextFlops
    template: str | None
    """How conversations are written down for the model, where it knows them."""

    @property
    @override
    def size(self) -> dict[str, int]:
        texts = {"training texts": len(self.splits["train"])} if "train" in self.splits else {}
        return {
            **texts,
            "training tokens": self.tape.n_ids,
            "vocabulary": self.config.n_vocab,
        }

    @property
    @override
    def vocabularies(self) -> tuple[Tokenizer, ...]:
        return (self.framing.tokenizer,)

    @override
    def stream(self) -> Stream:
        return window_stream(self.tape, batch_tokens=self.recipe.train.batch_tokens)

    @property
    @override
    def same_shapes(self) -> bool:
        return self.device.type == "cuda"

    @override
    def objective(self) -> NextTokenLoss:
        return NextTokenLoss(self.recipe.train, compiled=self.compiled)

    @override
    def validation(self) -> Scoring:
        """On windows that do not overlap, in nats per token, without smoothing."""
        ids = self.framing.laid(self.splits["valid"])

        def scores(model: LanguageModel) -> dict[str, float]:
            found = summed_up(judged(model, ids, self.device))
            return {name: found[name] for name in ("loss", "perplexity", "accuracy")}

        return Scoring(scores)

    @override
    def flops(self, batch: Batch) -> float:
        n_rows, n_ids = batch.target.shape
        return self.formula.training(n_rows, n_ids - 1)

    @override
    def example(self, number: int) -> str:
        """The window that begins there."""
        return self.framing.say(self.tape.read(number))

    @property
    @override
    def test_sets(self) -> Sequence[str]:
        return test_sets_of(self.splits)

    @override
    def scored(self, run: Writer, split: str) -> Evaluation:
        return run.evaluate_texts(
            self.splits[split], split=split, exercises=self.exercises.get(split, ())
        )

    @override
    def judged(self, out: Path, test_sets: Sequence[str] | None) -> JudgedRun:
        """With what it writes from nothing, which is the same each time."""
        judged = Prepared.judged(self, out, test_sets)
        texts = judged.run.generate("", n=N_SAMPLES, max_new=SAMPLE_TOKENS, seed=0)
        return replace(judged, samples=[("(from nothing)", text, None) for text in texts])

    @override
    def held_out(self) -> Sequence[str]:
        return self.splits["valid"]

    @override
    def n_validated_on(self) -> int:
        return sum(len(text.split()) for text in self.held_out())

    @override
    def learned_from(self) -> Sequence[str]:
        return self.splits.get("train", ())

    @override
    def save(self, folder: Path) -> None:
        self.framing.tokenizer.save(folder / SHARED)
        if self.template is not None:
            write_whole(folder / TEMPLATE, self.template)


def prepare_language(
    recipe: Recipe, device: torch.device, *, begun: Path | None = None, cache: Path | None = None
) -> PreparedLanguage:
    """Read the texts, train a tokenizer unless the run was begun, build the model."""
    del cache  # ids are made as fast as they would be read
    exercises = prompted_splits(recipe.data)
    splits = text_splits(recipe.data, exercises)
    init = recipe.train.init
    known = begun or (None if init is None else Path(init))  # the weights there know no other ids
    if known is None and recipe.data.shards is not None:
        tokenizer, template = shard_tokenizers(recipe).target, None
    elif known is None:
        tokenizer, template = Tokenizer.train(splits["train"], recipe.text), None
    else:
        path = known / TEMPLATE
        tokenizer = load_tokenizer(known)
        template = read_text(path) if path.exists() else None
    torch.manual_seed(recipe.train.seed)
    model, notes = begin_language(recipe, tokenizer, device, begun)
    config, framing = model.config, framing_for(tokenizer, recipe.data)
    tape, of_shards = _tape(recipe, splits, framing, config.max_len)
    notes, unknown = (*notes, *of_shards), tokenizer.specials.unknown
    if tokenizer.kind != "bpe" and unknown is not None:
        ids = framing.laid(splits["valid"])
        if n := int((ids == unknown).sum()):  # they make a model look better than it is
            share = 100 * n / len(ids)
            notes = (*notes, f"valid: {n:,} tokens ({share:.1f} %) are read as <unk>")
    return PreparedLanguage(
        recipe=recipe,
        splits=splits,
        exercises=exercises,
        framing=framing,
        tape=tape,
        config=config,
        formula=text_flops(model, config.longest),
        model=model.to(device),
        template=template,
        notes=notes,
        device=device,
    )


def _tape(
    recipe: Recipe, splits: Mapping[str, Texts], framing: Framing, max_len: int
) -> tuple[Tape | ShardedTape, tuple[str, ...]]:
    """All texts end to end, in memory or in shards, and notes on the latter."""
    data, seed = recipe.data, recipe.train.seed
    if data.shards is None:
        return Tape(framing.laid(splits["train"]), max_len, seed), ()
    folder = open_texts(recipe, framing.tokenizer)
    ids = ShardedIds(folder, weights(recipe), seed=seed, window_tokens=data.window_tokens)
    return ShardedTape(ids, max_len, seed), folder.manifest.notes


N_SAMPLES, SAMPLE_TOKENS = 4, 120


def writer_readings(run: Writer, texts: Sequence[str]) -> Iterator[Reading]:
    """Texts with what stands before them; lines that go on are read on."""
    config = run.model.config
    if run.framing.lines:
        whole, n = run.framing.laid(texts).tolist(), run.context
        read = [whole[i : i + n] for i in range(0, len(whole), n)]
    else:
        read = [run.framing.read(text)[: run.context] for text in texts]
    for some in batched(read, config.n_self_heads):
        ids = padded([ids for _, ids in some], len(some[0][1]), config.pad_id)
        yield Reading((ids,), special_ids(some, run.tokenizer.specials))


class LanguageTask(TextTask):
    """Texts end to end, and a language model that writes on."""

    name, unit = "language", TOKEN
    hub_task = "text-generation"
    verbs = (GENERATE,)
    files = (*TOKENIZER_FILES, TEMPLATE, EXAMPLES)
    heeds = (
        TEXT_SETTINGS
        | GENERATING
        | SHARD_SETTINGS
        | {"data.columns", "data.prompt", "train.init", "train.label_smoothing"}
    )
    smallest: ClassVar[Mapping[str, Any]] = {"n_vocab": 9}
    attends, looks = "gpt", frozenset({"target", "max_tokens"})
    evaluation_options = frozenset({"stride"})
    head_scores = ("loss", "perplexity")
    of_sentences = (
        {"text": "the animal did not cross the street because"},
        {"text": "jane visits"},
        {"text": "john loves"},
    )
    well_known = ({"text": "The capital of France is"}, {"text": "Once upon a time"})

    config = DecoderConfig
    prepare = staticmethod(prepare_language)
    load = staticmethod(load_writer)

    @override
    def shard(self, recipe: Recipe, *, n_workers: int, say: Callable[[str], None]) -> Manifest:
        return shard_texts(recipe, n_workers=n_workers, say=say)

    @override
    def has_test(self, run: Writer) -> bool:
        """Of plain text, ``data.hold_out`` makes a validation set alone."""
        data = run.recipe.data
        rows = data.prompt is not None
        return data.world is not None or data.test is not None or (rows and bool(data.hold_out))

    @override
    def records_of(self, run: Writer, split: str) -> Sequence[str]:
        check_data(run.folder, run.recipe.data, TEXTS_INSTEAD)
        return split_of(text_splits(run.recipe.data), split)

    @override
    def subject(self, run: Writer, split: str, n: int) -> Subject:
        return self._subject(run, self.records_of(run, split)[:n], split)

    @override
    def given_subject(self, run: Writer, texts: Sequence[str], name: str, n: int) -> Subject:
        return self._subject(run, given_texts(texts, name, n), name)

    def _subject(self, run: Writer, texts: Sequence[str], split: str) -> Subject:
        judge = self.scorer(lambda: run.evaluate_texts(texts, split=split).scores)
        readings = partial(writer_readings, run, texts)
        return Subject(run.model, run.device, readings, judge, split, len(texts))

    @override
    def score_file(self, run: Writer, path: Path, **options: Any) -> Evaluation:
        """Plain texts, end to end; rows with answers where the run was trained on such."""
        given, data = self.options_of(options), run.recipe.data
        if data.prompt is None:
            return run.evaluate_texts(read_texts(str(path)), split=path.name, **given)
        corpus = read_corpus(str(path), "label", data)
        update = {"data": data.model_copy(update={"test": str(path.absolute())})}
        asked = replace(run, recipe=run.recipe.model_copy(update=update))
        found = asked.evaluate_split("test", **given)
        scores = {**found.scores, "split": path.name}
        return replace(found, scores=scores, notes=tuple(corpus.notes(path.name)))

    @override
    def check_look(self, run: Writer, at_most: int, source: str, **more: Any) -> int:
        target, full = more.get("target"), run.context + 1  # the last is written and never read
        most = min(at_most, full if target else full - 1)
        n_tokens = len(run.framing.read(source)) + len(run.tokenizer.encode(target or ""))
        if n_tokens > most:
            raise DataError(
                f"the text has {n_tokens} tokens, at most {most} can be looked at; shorten it"
            )
        return max(1, min(at_most, full) - n_tokens)

    @override
    def tokenizers(self, run: Writer) -> tuple[Tokenizer, Tokenizer]:
        return run.tokenizer, run.tokenizer

    @override
    def info(self, run: Writer) -> dict[str, Any]:
        return {"pairs": False}

    @override
    def asked_of(self, run: Writer, records: Sequence[str]) -> Iterator[PageExample]:
        """The first halves of texts, by words."""
        for text in records:
            if found := spans(text):
                yield {"text": text[: found[(len(found) - 1) // 2][1]]}

    @override
    def explained_with(self, run: Writer, records: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """They are read; what would be written on, nobody asked for."""
        return ({"source": one["text"], "max_tokens": 1} for one in self.asked_of(run, records))

    @override
    def form(self, run: Writer) -> Form:
        return Form(
            label="A text to go on from",
            go="Write on",
            answer="Written",
            about=f"writes on, context {run.context:,}",
            stands="The text stands.",
            edits=("ablate", "force", "temperature", "no_positions", "swap", "force_token"),
            view="continuation",
            writes=True,
        )


TASKS.add("language")(LanguageTask())
