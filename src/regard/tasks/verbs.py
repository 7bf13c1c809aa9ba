"""The verbs of the built-in tasks. Importing them needs neither torch nor pydantic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from regard.core.errors import ConfigError, DataError
from regard.core.numbers import counted
from regard.tasks.base import TASKS, Answer, Answered, Chunks, Event, Verb
from regard.tasks.picture_verbs import ASK, CAPTION, DETECT

if TYPE_CHECKING:
    from pydantic import BaseModel

MASK = "<mask>"
MOST_UNKNOWN = 10_000
"""So many unknown words are remembered: input may be endless, memory is not."""
Note = Callable[[str], None]


def unknown_note(words: Iterable[str]) -> list[str]:
    """A line that names the first of the words that a model has never seen, if there are any."""
    unknown = list(dict.fromkeys(words))
    shown = ", ".join(unknown[:10]) + (", …" if len(unknown) > 10 else "")
    told = f"{counted(len(unknown), 'unknown word')} read as <unk>: {shown}"
    return [told] if unknown else []


def readable(
    run: Any, chunks: Chunks, size: int, note: Note, *, cut: bool = False
) -> Iterator[list[str]]:
    """Lists of lines that a run can read, as they arrive; the first that is longer is an error.

    After the last line the words are told that the model has never seen. Where lines are ``cut``,
    none is too long.
    """
    n_before, unknown = 0, dict[str, None]()
    for chunk in chunks(size):
        lines = chunk if cut else list(takewhile(run.fits, chunk))
        yield lines
        for line in lines:
            if len(unknown) < MOST_UNKNOWN:
                unknown |= dict.fromkeys(run.unknown_words(line))
        if len(lines) < len(chunk):
            number, long = n_before + len(lines) + 1, chunk[len(lines)]
            with chunks.telling(number):
                raise DataError(run.too_long(long))
        n_before += len(chunk)
    for told in unknown_note(unknown):
        note(told)
    if len(unknown) >= MOST_UNKNOWN:
        note("further unknown words were not counted")


def unknown_words(run: Any, *texts: str | None) -> list[str]:
    """The words of texts that a run reads as unknown; a mask is none."""
    parts = [part for text in texts if text for part in text.split(MASK)]
    return [word for part in parts for word in run.unknown_words(part)]


def check_length(
    run: Any, at_most: int, text: str, other: str | None = None, *, able: str = "go in"
) -> None:
    """Refuse a text, or a pair, of more tokens than ``at_most`` or than an encoder can read."""
    ends = 3 if other else 2  # begin and end, and one more end between two texts
    most = min(at_most, run.model.config.max_len - ends)
    n_tokens = sum(len(run.tokenizer.encode(one)) for one in (text, other) if one)
    if n_tokens > most:
        named = "pair" if other else "text"
        raise DataError(f"the {named} has {n_tokens} tokens, at most {most} {able}; shorten it")


def check_side(run: Any, at_most: int, tokenizer: Any, text: str, *, able: str = "go in") -> None:
    """Refuse a source or a target of more tokens than ``at_most`` or than a translator knows."""
    longest = run.model.config.longest
    most = at_most if longest is None else min(at_most, longest - 1)  # the end takes a place
    n_tokens = len(tokenizer.encode(text))
    if n_tokens > most:
        raise DataError(f"the text has {n_tokens} tokens, at most {most} {able}; shorten it")


def cut_note(run: Any) -> str:
    """What is told of lines that are longer than an encoder reads."""
    return f"cut to {run.model.config.max_len} tokens"


class BuiltinVerb(Verb):
    """A verb whose fields are in ``tasks/requests.py``: those of ``Fill`` are ``FillRequest``."""

    read: ClassVar[tuple[str, ...]] = ()
    """Fields of a request whose unknown words the server tells beside an answer."""

    @override
    def beside(self, run: Any, request: Any) -> Answer:
        texts = [getattr(request, name) for name in self.read]
        return {"unknown": unknown_words(run, *texts)} if texts else {}

    @property
    @override
    def request(self) -> type[BaseModel]:
        return self._fields("Request")

    @property
    @override
    def options(self) -> type[BaseModel] | None:
        return self._fields("Options")

    def _fields(self, kind: str) -> Any:
        from regard.tasks import requests

        return getattr(requests, f"{self.name.capitalize()}{kind}", None)


class Translate(BuiltinVerb):
    """A sentence in, its translation out."""

    name, task, wants = "translate", "translation", "a translator"
    summary = "Translate the lines of standard input, one by one, to standard output."
    help = (
        "Scores are log-probabilities divided by the length penalty; `regard score` gives plain "
        "ones."
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
        check_side(run, at_most, run.tokenizers.source, request.source)

    @override
    def lines(self, run: Any, chunks: Chunks, options: Any, *, note: Note) -> Iterator[Answered]:
        warnings = run.length_warnings([], [])
        named = {name: getattr(options, name) for name in ("beam", "batch_tokens", "prefix")}
        how = {**named, **options.sampling}
        for lines in self.texts(run, chunks, options, note):
            found = run.hypotheses(lines, n_best=options.n_best or 1, **how)
            warnings += run.length_warnings(lines, [several[0] for several in found])
            yield [
                (line, {"hypotheses": [self._described(run, line, one) for one in several]})
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
        return {self.reads: request, **found[0], **several}

    def _described(self, run: Any, line: str, hypothesis: Any) -> Answer:
        return {
            self.writes: run.text(line, hypothesis).replace("\n", " "),  # one line out
            "score": hypothesis.score,
            "tokens": run.tokenizers.target.tokens(hypothesis.ids),
        }


class Summarize(Translate):
    """A document in, its summary out."""

    name, task, wants = "summarize", "summarization", "a summarizer"
    summary = "Summarize documents: files, or the lines of standard input, one by one."
    help = (
        "An input is a file that holds one document. Scores are log-probabilities divided by the "
        "length penalty."
    )
    doc = "The summary of a document."
    served, read, reads, writes = True, ("document",), "document", "summary"
    unit, chunk, reads_files = "document", 16, True

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
        for told in unknown_note(unknown):
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
        yield "done", {**told, "unknown": run.unknown_words(request.prompt)}

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


class Classify(BuiltinVerb):
    """A text in, its label out."""

    name, task, wants = "classify", "classification", "one of classification"
    summary = "Label the lines of standard input: `label TAB probability`, one by one."
    help = (
        "Where a run was trained on pairs, a line is two texts with a tab between them. An "
        "imported run reads such a line as a pair, and any other as one text."
    )
    doc = "The label of a text, and how likely each label is."
    read = ("text", "other")

    @override
    def check(self, run: Any, request: Any, at_most: int) -> None:
        check_length(run, at_most, request.text, request.other)

    @override
    def from_line(self, run: Any, line: str, options: Any) -> Any:
        if run.takes_pairs is False:
            return self.request.model_construct(text=line)
        first, tab, second = line.partition("\t")
        whole = first.strip() and second.strip() and "\t" not in second
        if run.takes_pairs and not (tab and whole):
            raise DataError(
                "this run was trained on pairs; expected two texts with one tab between them"
            )
        return self.request.model_construct(text=first, other=second)

    @override
    def answer(self, run: Any, requests: Sequence[Any]) -> list[Answer]:
        answers: list[Answer] = []
        for shares in run.probabilities(_pairs(run, requests)).tolist():
            ordered = sorted(zip(shares, run.labels.names, strict=True), reverse=True)
            labels = [{"label": name, "probability": share} for share, name in ordered]
            answers.append({**labels[0], "labels": labels})
        return answers

    @override
    def remark(self, run: Any, requests: Sequence[Any]) -> tuple[int, str]:
        return run.n_cut(_pairs(run, requests)), cut_note(run)

    @override
    def as_line(self, request: Any, answer: Answer, options: Any) -> str:
        return f"{answer['label']}\t{answer['probability']:.4f}"

    @override
    def as_record(self, request: Any, answer: Answer, options: Any) -> Answer:
        text = f"{request.text}\t{request.other}" if request.other else request.text
        best = {name: answer[name] for name in ("label", "probability")}
        shares = {one["label"]: one["probability"] for one in answer["labels"]}
        return {"text": text, **best, "probabilities": shares}


def _pairs(run: Any, requests: Sequence[Any]) -> Any:
    return run.inputs(
        [one.text if one.other is None else (one.text, one.other) for one in requests]
    )


class Fill(BuiltinVerb):
    """A text with masks in, the text with words out."""

    name, task, wants = "fill", "masked", "one of masked"
    summary = "Guess the words at each <mask> in the lines of standard input."
    doc = "What may stand where a text says <mask>."
    chunk, read = 1, ("text",)

    @override
    def from_line(self, run: Any, line: str, options: Any) -> Any:
        return self.request.model_construct(text=line, n=options.n or 5)

    @override
    def answer(self, run: Any, requests: Sequence[Any]) -> list[Answer]:
        found = [run.fill(one.text, one.n) for one in requests]
        return [
            {"text": one.text, "masks": [[guess._asdict() for guess in all_] for all_ in one.masks]}
            for one in found
        ]

    @override
    def as_line(self, request: Any, answer: Answer, options: Any) -> str:
        if options.n is None:
            return str(answer["text"]).replace("\n", " ")
        guesses = [guess for guesses in answer["masks"] for guess in guesses]
        return "\n".join(f"{one['token']}\t{one['probability']:.4f}" for one in guesses)

    @override
    def as_record(self, request: Any, answer: Answer, options: Any) -> Answer:
        return {"text": request.text, "filled": answer["text"], "masks": answer["masks"]}


class Reply(BuiltinVerb):
    """A question and a text in, the words of the text that answer it out."""

    name, task, wants = "answer", "answers", "one of answers"
    summary = "Answer questions with words of a text: `answer TAB probability`."
    help = (
        "Without --text and --file, a line of standard input is a question and its text, with a "
        "tab between them. Texts may be long: they are read in windows that overlap."
    )
    doc = "The words of a text that answer a question."
    chunk, read, unit = 256, ("question", "text"), "question"

    @override
    def check(self, run: Any, request: Any, at_most: int) -> None:
        if run.n_cut([(request.question, request.text)]):
            raise DataError(
                f"the question takes more than half of the {run.model.config.max_len} tokens that "
                "the model reads at once; shorten it"
            )

    @override
    def lines(self, run: Any, chunks: Chunks, options: Any, *, note: Note) -> Iterator[Answered]:
        context = options.text
        if options.file is not None:
            if context is not None:
                raise ConfigError("--text and --file are two texts: give one")
            from regard.data.lines import read_lines

            context = "\n".join(read_lines(options.file))
        if options.question is None:
            fixed = options.model_copy(update={"text": context, "file": None})
            yield from super().lines(run, chunks, fixed, note=note)
            return
        if context is None:
            raise ConfigError("--question needs a text to look into: give --text or --file")
        _check_question(options.question, context, "")
        asked = [self._asked(options.question, context, options)]
        yield list(zip(asked, self.answer(run, asked), strict=True))
        self.tell(*self.remark(run, asked), note)

    @override
    def from_line(self, run: Any, line: str, options: Any) -> Any:
        question, text = line, options.text
        if text is None:
            question, _, text = line.partition("\t")
        _check_question(question, text, " after a tab, or with --text or --file")
        return self._asked(question, text, options)

    def _asked(self, question: str, text: str, options: Any) -> Any:
        return self.request.model_construct(question=question, text=text, n=options.top or 1)

    @override
    def answer(self, run: Any, requests: Sequence[Any]) -> list[Answer]:
        n = max((one.n for one in requests), default=1)
        found = run.answers([(one.question, one.text) for one in requests], n)
        several = [
            [one.as_json() for one in best[: asked.n]]
            for asked, best in zip(requests, found, strict=True)
        ]
        return [{**best[0], "answers": best} for best in several]

    @override
    def remark(self, run: Any, requests: Sequence[Any]) -> tuple[int, str]:
        n = run.n_cut([(one.question, one.text) for one in requests])
        return n, f"cut to half of {run.model.config.max_len} tokens"

    @override
    def as_line(self, request: Any, answer: Answer, options: Any) -> str:
        best = answer["answers"]
        lines = [f"{' '.join(one['answer'].split())}\t{one['probability']:.4f}" for one in best]
        return "\n".join(lines) + ("" if options.top is None else "\n")

    @override
    def as_record(self, request: Any, answer: Answer, options: Any) -> Answer:
        found = {"question": request.question, **answer}
        return found if options.top else {k: v for k, v in found.items() if k != "answers"}


def _check_question(question: str, text: str, remedy: str) -> None:
    if not question.strip():
        raise DataError("the question is empty; ask something")
    if not text.strip():
        raise DataError(f"there is no text to find the answer in; give it{remedy}")


class Embed(BuiltinVerb):
    """A text in, its vector out, or the sentences of a file nearest to it."""

    name, task, wants = "embed", "similarity", "an encoder"
    summary = (
        "Turn the lines of standard input into vectors of length 1, numbers divided by spaces."
    )
    help = (
        "With --nearest: `cosine TAB sentence`, the nearest first, and an empty line after each "
        "line's."
    )
    doc = "A vector of length 1 for each text."

    @override
    def check(self, run: Any, request: Any, at_most: int) -> None:
        for text in request.texts:
            check_length(run, at_most, text)

    @override
    def from_line(self, run: Any, line: str, options: Any) -> Any:
        return self.request.model_construct(texts=[line])

    @override
    def answer(self, run: Any, requests: Sequence[Any]) -> list[Answer]:
        vectors = run.embed([text for one in requests for text in one.texts]).tolist()
        left = iter(vectors)
        return [{"vectors": [next(left) for _ in one.texts]} for one in requests]

    @override
    def lines(self, run: Any, chunks: Chunks, options: Any, *, note: Note) -> Iterator[Answered]:
        if options.n is not None and options.nearest is None:
            raise ConfigError("--n says how many sentences are printed, and needs --nearest FILE")
        if options.nearest is None:
            yield from super().lines(run, chunks, options, note=note)
            return
        from regard.data.lines import read_lines

        texts = [line.strip() for line in read_lines(options.nearest) if line.strip()]
        if not texts:
            raise DataError(f"{options.nearest}: empty; expected a sentence a line")
        among, n_cut = run.embed(texts), 0
        for lines in chunks(self.chunk):
            found = run.nearest(lines, texts, options.n or 5, among=among)
            asked = [self.from_line(run, line, options) for line in lines]
            near = [{"nearest": [one._asdict() for one in several]} for several in found]
            yield list(zip(asked, near, strict=True))
            n_cut += run.n_cut(lines)
        self.tell(n_cut, cut_note(run), note)

    @override
    def remark(self, run: Any, requests: Sequence[Any]) -> tuple[int, str]:
        return run.n_cut([text for one in requests for text in one.texts]), cut_note(run)

    @override
    def as_line(self, request: Any, answer: Answer, options: Any) -> str:
        if "nearest" in answer:
            return "".join(f"{one['score']:.4f}\t{one['text']}\n" for one in answer["nearest"])
        return " ".join(f"{x:.6g}" for x in answer["vectors"][0])

    @override
    def as_record(self, request: Any, answer: Answer, options: Any) -> Answer:
        if "nearest" in answer:
            return {"text": request.texts[0], "nearest": answer["nearest"]}
        vector = [float(f"{x:.6g}") for x in answer["vectors"][0]]
        return {"text": request.texts[0], "embedding": vector}


class Nearest(BuiltinVerb):
    """A text and others in, the others by their cosine out."""

    name, task, wants, command = "nearest", "similarity", "an encoder", False
    summary = "Texts by how near they are to one: cosines, nearest first."

    @override
    def check(self, run: Any, request: Any, at_most: int) -> None:
        for text in (request.text, *request.others):
            check_length(run, at_most, text)

    @override
    def answer(self, run: Any, requests: Sequence[Any]) -> list[Answer]:
        found = [run.nearest(one.text, one.others, len(one.others)) for one in requests]
        return [{"nearest": [near._asdict() for near in several]} for several in found]

    @override
    def beside(self, run: Any, request: Any) -> Answer:
        return {"unknown": unknown_words(run, request.text, *request.others)}


TRANSLATE, SUMMARIZE, GENERATE = Translate(), Summarize(), Generate()
CLASSIFY, FILL = Classify(), Fill()
ANSWER, EMBED, NEAREST = Reply(), Embed(), Nearest()


def verbs() -> dict[str, Verb]:
    """All verbs by name: the built-in ones, and those of plug-ins that were loaded."""
    texts = (TRANSLATE, SUMMARIZE, GENERATE, CLASSIFY, ANSWER, EMBED, NEAREST, FILL)
    builtin = (*texts, CAPTION, ASK, DETECT)
    others = (verb for task in TASKS.entered() for verb in task.verbs)
    return {verb.name: verb for verb in (*others, *builtin)}
