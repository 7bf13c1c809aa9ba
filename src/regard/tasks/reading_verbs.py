"""The verbs whose answer is found in what the run reads: labels, words, spans, vectors.

Importing them needs neither torch nor pydantic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from typing_extensions import override

from regard.core.errors import ConfigError, DataError
from regard.tasks.verb import Answer, Answered, Chunks
from regard.tasks.verbs import BuiltinVerb, Note, check_length, cut_note, told_beside


class Classify(BuiltinVerb):
    """A text in, its label out."""

    name, task, wants = "classify", "classification", "one of classification"
    takes = "Texts, or files of pictures"
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
        _check_known(run, "\t".join(one for one in (request.text, request.other) if one))

    @override
    def from_line(self, run: Any, line: str, options: Any) -> Any:
        _check_known(run, line)
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


def _check_known(run: Any, text: str) -> None:
    """Refuse a text, or two with a tab between them, of which the model knows no word."""
    if (why := run.nothing_known(text)) is not None:
        raise DataError(why)


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
        raise DataError(f"there is not text to find the answer in; give it{remedy}")


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
            return _nearest_lines(answer)
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
        return told_beside(run, request.text, *request.others)


class Neighbours(BuiltinVerb):
    """A word in, the words whose vectors are nearest out."""

    name, task, wants = "neighbours", "vectors", "word vectors"
    summary = "Find the words nearest to those of standard input: `cosine TAB word`."
    help = "An empty line follows each line's. Of several words in a line the mean is taken."
    doc = "The words of the vocabulary that are nearest to a word: cosines, nearest first."
    read = ("text",)

    @override
    def from_line(self, run: Any, line: str, options: Any) -> Any:
        _check_known(run, line)
        return self.request.model_construct(text=line, n=options.n)

    @override
    def check(self, run: Any, request: Any, at_most: int) -> None:
        _check_known(run, request.text)

    @override
    def answer(self, run: Any, requests: Sequence[Any]) -> list[Answer]:
        found = [run.neighbours(one.text, one.n) for one in requests]
        return [{"nearest": [near._asdict() for near in several]} for several in found]

    @override
    def as_line(self, request: Any, answer: Answer, options: Any) -> str:
        return _nearest_lines(answer)

    @override
    def as_record(self, request: Any, answer: Answer, options: Any) -> Answer:
        return {"text": request.text, **answer}


def _nearest_lines(answer: Answer) -> str:
    return "".join(f"{one['score']:.4f}\t{one['text']}\n" for one in answer["nearest"])


CLASSIFY, FILL = Classify(), Fill()
ANSWER, EMBED, NEAREST, NEIGHBOURS = Reply(), Embed(), Nearest(), Neighbours()
