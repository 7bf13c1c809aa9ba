"""Language: a text is written on, and every token is judged by those before it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from typing_extensions import override

from regard.core.errors import DataError
from regard.data.plain_texts import text_splits
from regard.models.decoder import DecoderConfig
from regard.runs.kinds.writer import Writer, load_writer
from regard.runs.looking.look import Look
from regard.runs.own_files import score_texts
from regard.runs.tasks.language import PreparedLanguage, prepare_language
from regard.tasks.base import TASKS, TOKEN, Evaluation, Form
from regard.tasks.encoding import Example, TextTask
from regard.tasks.verbs import GENERATE
from regard.text.tokenizer import Tokenizer
from regard.text.words import spans


class Language(TextTask):
    """Texts end to end, and a language model that writes on."""

    name, unit = "language", TOKEN
    verbs = (GENERATE,)
    heeds = frozenset(
        {
            "data.columns",
            "data.prompt",
            "train.label_smoothing",
            "decode.precision",
            "decode.max_len",
        }
    )
    smallest: ClassVar[Mapping[str, Any]] = {"n_vocab": 9}
    attends = "gpt"
    evaluation_options = frozenset({"stride"})
    of_sentences = (
        {"text": "the animal did not cross the street because"},
        {"text": "jane visits"},
        {"text": "john loves"},
    )
    well_known = ({"text": "The capital of France is"}, {"text": "Once upon a time"})

    @property
    @override
    def config(self) -> type[DecoderConfig]:
        return DecoderConfig

    @override
    def prepare(self, *args: Any, **more: Any) -> PreparedLanguage:
        return prepare_language(*args, **more)

    @override
    def load(self, path: str | Path, *, device: str | None = None) -> Writer:
        return load_writer(path, device=device)

    @override
    def evaluate(self, run: Writer, split: str | None = None, **options: Any) -> Evaluation:
        self.check_options(options)
        return run.evaluate(split or "test", **options)

    @override
    def score_file(self, run: Writer, path: Path, **options: Any) -> Evaluation:
        self.check_options(options)
        return score_texts(run, path, **options)

    @override
    def explain(
        self,
        run: Writer,
        source: str,
        *,
        other: str | None = None,
        target: str | None = None,
        max_tokens: int | None = None,
        edit: Any = (),
    ) -> Look:
        if other is not None:
            super().explain(run, source, other=other)
        how = {} if max_tokens is None else {"max_tokens": max_tokens}
        return run.explain(source, target, edit=edit, **how)

    @override
    def check_look(
        self,
        run: Writer,
        at_most: int,
        source: str,
        *,
        other: str | None = None,
        target: str | None = None,
    ) -> int:
        full = run.context + 1  # what comes last is written and never read
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
    def held_out(self, run: Writer) -> Iterator[Example]:
        """The first halves of texts, by words."""
        for text in text_splits(run.recipe.data)["valid"]:
            if found := spans(text):
                yield {"text": text[: found[(len(found) - 1) // 2][1]]}

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


TASKS.add("language")(Language())
