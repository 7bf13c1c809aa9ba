"""The verbs whose answer is a text that the run writes: a translation, a summary, what follows.

Importing them needs neither torch nor pydantic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from regard.core.errors import ConfigError, DataError
from regard.tasks.verb import Answer, Answered, Chunks, Event
from regard.tasks.verbs import (
    MOST_UNKNOWN,
    BuiltinVerb,
    Note,
    check_source,
    cut_note,
    read_otherwise,
    readable,
    told_beside,
    unknown_note,
)


class Translate(BuiltinVerb):
    """A sentence in, its translation out."""

    name, task, wants = "translate", "translation", "a translator"
    summary = "Translate the lines of standard input, one by one, to standard output."
    help = (
        "Run folders of translators that come after RUN form an ensemble with it. Scores are "
        "log-probabilities divided by the length penalty; `regard score` gives plain ones."
    )
    doc = "The translation of a sentence."
    served, read = False, ("source",)
    reads: ClassVar[str] = "source"
    """What goes in, as JSON names it."""
    writes: ClassVar[str] = "translation"
    """What comes out, as JSON names it."""

    @override
    def answer(self, run: Any, requests: Sequence[Any]) -> list[Answer]:
        sources = [one.source for one in requests]
        said = run.translate(sources, prefix=[one.prefix for one in requests])
        pairs = zip(sources, said, strict=True)
        return [{"source": source, "translation": text} for source, text in pairs]

    @override
    def check(self, run: Any, request: Any, at_most: int) -> None:
        check_source(run, at_most, request.source)

    @override
    def lines(self, run: Any, chunks: Chunks, options: Any, *, note: Note) -> Iterator[Answered]:
        warnings = run.length_warnings([], [])
        named = {name: getattr(options, name) for name in ("beam", "batch_tokens", "prefix")}
        how = {**named, **options.sampling}
        for lines in self.texts(run, chunks, options, note):
            found = run.hypotheses(lines, n_best=options.n_best or 1, **how)
            warnings += run.length_warnings(lines, [several[0] for several in found])
            yield [
                (line, {**_changed(run, line), "hypotheses": self._described(run, line, several)})
                for line, several in zip(lines, found, strict=True)
            ]
        for told in warnings.lines():
            note(told)

    def texts(self, run: Any, chunks: Chunks, options: Any, note: Note) -> Iterator[list[str]]:
        """Lists of sources that the run can read; the first that it cannot is an error."""
        return readable(run, chunks, self.chunk, note)

    @override
    def as_line(self, request: Any, answer: Answer, options: Any) -> str:
        found = answer["hypotheses"]
        if options.n_best:
            return "\n".join(f"{one[self.writes]}\t{one['score']:.4f}" for one in found)
        return str(found[0][self.writes])

    @override
    def as_record(self, request: Any, answer: Answer, options: Any) -> Answer:
        found = answer["hypotheses"]
        several = {"hypotheses": found} if options.n_best else {}
        changed = {name: answer[name] for name in ("changed",) if name in answer}
        return {self.reads: request, **found[0], **changed, **several}

    def _described(self, run: Any, line: str, hypotheses: Sequence[Any]) -> list[Answer]:
        return [
            {
                self.writes: run.text(line, one).replace("\n", " "),  # one line out
                "score": one.score,
                "tokens": run.tokenizers.target.tokens(one.ids),
            }
            for one in hypotheses
        ]


def _changed(run: Any, line: str) -> Answer:
    """How a line was read, where that is not as it was typed."""
    found = read_otherwise(run, line)
    return {"changed": found} if found else {}


class Summarize(Translate):
    """A document in, its summary out."""

    name, task, wants = "summarize", "summarization", "a summarizer"
    summary = "Summarize documents: files, or the lines of standard input, one by one."
    help = "Scores are log-probabilities divided by the length penalty."
    doc = "The summary of a document."
    served, read, reads, writes = True, ("document",), "document", "summary"
    unit, chunk = "document", 16
    reads_files, takes = True, "Files that hold one document each"

    @override
    def check(self, run: Any, request: Any, at_most: int) -> None:
        """A document may be as long as the model reads, which training has paid for already."""
        run.readable(request.document, truncate=request.truncate)

    @override
    def answer(self, run: Any, requests: Sequence[Any]) -> list[Answer]:
        told = [run.readable(one.document, truncate=one.truncate) for one in requests]
        said = run.summarize(told)
        cut = [text != one.document for text, one in zip(told, requests, strict=True)]
        return [{"summary": text, "cut": short} for text, short in zip(said, cut, strict=True)]

    @override
    def texts(self, run: Any, chunks: Chunks, options: Any, note: Note) -> Iterator[list[str]]:
        n_before, n_cut, unknown = 0, 0, dict[str, None]()
        for chunk in chunks(self.chunk):
            documents: list[str] = []
            try:
                for number, line in enumerate(chunk, start=n_before + 1):
                    with chunks.telling(number):
                        whole = _document_in(line) if chunks.given else line
                        if chunks.given and not whole:
                            note(f"{line} is empty, and so is its summary")
                        documents.append(run.readable(whole, truncate=options.truncate))
                    n_cut += documents[-1] != whole
            except DataError:  # after all that stands before it
                yield documents
                raise
            yield documents
            n_before += len(chunk)
            if len(unknown) < MOST_UNKNOWN:
                unknown |= dict.fromkeys(
                    word for one in documents for word in run.unknown_words(one)
                )
        for told in unknown_note(unknown, run):
            note(told)
        self.tell(n_cut, cut_note(run), note)


def _document_in(path: str) -> str:
    """All lines of a file as one text."""
    from pathlib import Path

    from regard.data.lines import read_lines

    return " ".join(" ".join(read_lines(Path(path))).split())


class Generate(BuiltinVerb):
    """A prompt in, what follows it out."""

    name, task, wants = "generate", "language", "a language model"
    summary = (
        "Write on after each line of standard input; from nothing if nobody pipes anything in."
    )
    help = (
        "Prints what follows the prompt, as it is, and a line break. With --json one object a "
        "text: prompt, text, tokens, finished."
    )
    doc = "Write on from a prompt, each piece as it comes."
    streams, chunk, unasked = True, 64, ("",)

    @override
    def check(self, run: Any, request: Any, at_most: int) -> None:
        if not run.fits(request.prompt):
            raise DataError(
                f"the prompt has {len(run.framing.read(request.prompt))} tokens, but the model's "
                f"context holds {run.context}; shorten it"
            )
        if (why := run.nothing_known(request.prompt)) is not None:
            raise DataError(why)

    @override
    def answer(self, run: Any, requests: Sequence[Any]) -> list[Answer]:
        return [[*self.events(run, one)][-1][1] for one in requests]

    @override
    def events(
        self, run: Any, request: Any, dropped: Callable[[], bool] | None = None
    ) -> Iterator[Event]:
        """``token`` after ``token``, each with the text that it adds; then ``done`` with all of it.

        ``done`` also tells the seed, whether the text came to an end by itself, and the words of
        the prompt that the model does not know.
        """
        from secrets import randbelow  # slow to import, and `--help` reads this file

        seed = randbelow(2**31) if request.seed is None else request.seed
        how = {name: getattr(request, name) for name in ("temperature", "top_k", "top_p", "stop")}
        pieces = run.stream(
            request.prompt, max_new=request.max_tokens, seed=seed, dropped=dropped, **how
        )
        said, finished = "", None
        while finished is None:
            try:
                piece = next(pieces)
                said += piece
                yield "token", {"text": piece}
            except StopIteration as end:
                finished = bool(end.value)
        told = {"text": said, "finished": finished, "seed": seed}
        yield "done", {**told, **told_beside(run, request.prompt)}

    @override
    def lines(self, run: Any, chunks: Chunks, options: Any, *, note: Note) -> Iterator[Answered]:
        n, cut = options.n_best or options.n, options.truncate is not None
        config, how = self._how(run, options)
        for prompts in readable(run, chunks, max(1, self.chunk // n), note, cut=cut):
            written = run.written(prompts, config, n=n, **how)
            yield [
                (prompt, self._described(one, options))
                for prompt, several in zip(prompts, written, strict=True)
                for one in several
            ]

    @override
    def pieces(self, run: Any, chunks: Chunks, options: Any, *, note: Note) -> Iterator[str]:
        if options.n > 1 or options.n_best:
            raise ConfigError(
                "--stream prints one text as it comes: leave out --json, --n and --n-best"
            )
        config, how = self._how(run, options)
        for prompts in readable(run, chunks, 1, note, cut=options.truncate is not None):
            for prompt in prompts:
                yield from run.pieces(prompt, config, **how)
                yield "\n"

    @staticmethod
    def _how(run: Any, options: Any) -> tuple[Any, dict[str, Any]]:
        """How a run writes, and what else it is told: one seed is for all prompts."""
        if options.n_best and options.n > 1:
            raise ConfigError("--n texts are sampled, the --n-best are searched for: ask for one")
        names = ("max_new", "beam", "n_best", "temperature", "top_k", "top_p")
        told = {"stop": options.stop, "truncate": options.truncate, "rng": run.rng(options.seed)}
        return run.generation(**{name: getattr(options, name) for name in names}), told

    @staticmethod
    def _described(one: Any, options: Any) -> Answer:
        told = {"text": one.text, "tokens": list(one.tokens), "finished": one.finished}
        return {**told, "score": one.score} if options.n_best else told

    @override
    def as_line(self, request: Any, answer: Answer, options: Any) -> str:
        text = str(answer["text"])
        return f"{text}\t{answer['score']:.4f}" if options.n_best else text

    @override
    def as_record(self, request: Any, answer: Answer, options: Any) -> Answer:
        return {"prompt": request, **answer}


TRANSLATE, SUMMARIZE, GENERATE = Translate(), Summarize(), Generate()
