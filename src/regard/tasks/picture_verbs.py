"""The verbs of the tasks of pictures. Importing them needs neither torch nor pydantic.

On the command line a picture is a file; over HTTP it is a data URL, and no file is ever read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from typing_extensions import override

from regard.core.errors import ConfigError, DataError
from regard.tasks.verb import Answer, Answered, Chunks, Verb
from regard.tasks.verbs import told_beside

if TYPE_CHECKING:
    from pydantic import BaseModel

Note = Callable[[str], None]
MOST_ANSWERS = 20
"""So many answers are told with their shares, the likeliest first."""


class ChatReply(NamedTuple):
    """What a run says to a message with a picture."""

    text: str
    n_tokens: int
    """That were written, the end token included."""
    finished: bool
    """False where a limit came before the end."""


class PictureVerb(Verb):
    """A picture in."""

    unit = "picture"
    chunk = 16
    reads_files, takes = True, "Files of pictures"
    chats: ClassVar[bool] = False
    """Whether it replies to messages with a picture, as ``/v1/chat/completions`` takes them."""

    def replies(
        self, run: Any, image: str, text: str, n: int, *, at_most: int, **how: Any
    ) -> list[ChatReply]:
        """``n`` replies to a picture (a data URL) and the text of the message, best first.

        A text of more than ``at_most`` tokens is refused, where it is read. ``how`` may have a
        temperature, ``top_p``, a seed and ``max_len``, the most tokens to write.
        """
        raise NotImplementedError

    @property
    @override
    def request(self) -> type[BaseModel]:
        from regard.tasks.requests import PictureRequest

        return PictureRequest

    @override
    def check(self, run: Any, request: Any, at_most: int) -> None:
        run.fitted(request.image)

    @override
    def from_line(self, run: Any, line: str, options: Any) -> Any:
        return self.request.model_construct(image=Path(line))

    @override
    def as_record(self, request: Any, answer: Answer, options: Any) -> Answer:
        return {"image": str(request.image), **answer}


class ClassifyPicture(PictureVerb):
    """A picture in, its label out."""

    name, task, wants = "classify", "image_classification", "one of image_classification"
    summary = "Label pictures: `label TAB probability`, one by one."
    doc = "The label of a picture, and how likely each label is."

    @override
    def answer(self, run: Any, requests: Sequence[Any]) -> list[Answer]:
        answers: list[Answer] = []
        for shares in run.probabilities([one.image for one in requests]).tolist():
            ordered = sorted(zip(shares, run.labels.names, strict=True), reverse=True)
            labels = [{"label": name, "probability": share} for share, name in ordered]
            answers.append({**labels[0], "labels": labels})
        return answers

    @override
    def as_line(self, request: Any, answer: Answer, options: Any) -> str:
        return f"{answer['label']}\t{answer['probability']:.4f}"


class Ask(PictureVerb):
    """A picture and a question in, an answer out."""

    name, task, wants = "ask", "visual_questions", "one of visual_questions"
    summary = "Answer questions about pictures: `answer TAB probability`, one by one."
    help = (
        "Without --question, an input or a line is a picture's file and a question, with a tab "
        "between them."
    )
    doc = "The answer to a question about a picture, and how likely each answer is."
    chats = True

    @property
    @override
    def request(self) -> type[BaseModel]:
        from regard.tasks.requests import AskRequest

        return AskRequest

    @property
    @override
    def options(self) -> type[BaseModel]:
        from regard.tasks.requests import AskOptions

        return AskOptions

    @override
    def check(self, run: Any, request: Any, at_most: int) -> None:
        run.fitted(request.image)
        run.check_question(request.question, at_most)

    @override
    def beside(self, run: Any, request: Any) -> Answer:
        return told_beside(run, request.question)

    @override
    def from_line(self, run: Any, line: str, options: Any) -> Any:
        image, question = line, options.question
        if question is None:
            image, _, question = line.partition("\t")
        if not image.strip() or not question.strip():
            raise DataError(
                "expected a picture's file and a question with a tab between them; or give "
                "--question"
            )
        return self.request.model_construct(image=Path(image), question=question)

    @override
    def replies(
        self, run: Any, image: str, text: str, n: int, *, at_most: int, **how: Any
    ) -> list[ChatReply]:
        if not text.strip():
            raise DataError("there is no question: send a text beside the picture")
        request = self.request.model_construct(image=image, question=text)
        self.check(run, request, at_most)
        (answer,) = self.answer(run, [request])
        return [ChatReply(one["label"], 1, True) for one in answer["labels"][:n]]

    @override
    def answer(self, run: Any, requests: Sequence[Any]) -> list[Answer]:
        answers: list[Answer] = []
        pairs = [(one.image, one.question) for one in requests]
        for shares in run.probabilities(pairs).tolist():
            ordered = sorted(zip(shares, run.labels.names, strict=True), reverse=True)[
                :MOST_ANSWERS
            ]
            labels = [{"label": name, "probability": share} for share, name in ordered]
            best = {"answer": labels[0]["label"], "probability": labels[0]["probability"]}
            answers.append({**best, "labels": labels})
        return answers

    @override
    def remark(self, run: Any, requests: Sequence[Any]) -> tuple[int, str]:
        n = run.n_cut([one.question for one in requests])
        return n, f"with a question cut to {run.config.max_len} tokens"

    @override
    def as_line(self, request: Any, answer: Answer, options: Any) -> str:
        return f"{answer['answer']}\t{answer['probability']:.4f}"

    @override
    def as_record(self, request: Any, answer: Answer, options: Any) -> Answer:
        asked = {"image": str(request.image), "question": request.question}
        return {**asked, **answer}


class Detect(PictureVerb):
    """A picture in, the objects in it out."""

    name, task, wants = "detect", "detection", "one of detection"
    summary = "Find objects in pictures: a JSON object for each; --out draws their boxes."
    doc = "The objects of a picture, the surest first: label, score and box in pixels."

    @property
    @override
    def request(self) -> type[BaseModel]:
        from regard.tasks.requests import DetectRequest

        return DetectRequest

    @property
    @override
    def options(self) -> type[BaseModel]:
        from regard.tasks.requests import DetectOptions

        return DetectOptions

    @override
    def from_line(self, run: Any, line: str, options: Any) -> Any:
        return self.request.model_construct(image=Path(line), threshold=options.threshold)

    @override
    def answer(self, run: Any, requests: Sequence[Any]) -> list[Answer]:
        answers: list[Answer] = []
        for request, found in zip(
            requests, run.found([x.image for x in requests], 0.0), strict=True
        ):
            objects = [one._asdict() for one in found.objects if one.score >= request.threshold]
            answers.append({"width": found.width, "height": found.height, "objects": objects})
        return answers

    @override
    def as_line(self, request: Any, answer: Answer, options: Any) -> str:
        return json.dumps(self.as_record(request, answer, options), ensure_ascii=False)

    @override
    def lines(self, run: Any, chunks: Chunks, options: Any, *, note: Note) -> Iterator[Answered]:
        out, n, drawn = options.out, 0, set[Path]()
        for answered in super().lines(run, chunks, options, note=note):
            n += len(answered)
            if out is not None and out.suffix and n > 1:
                raise ConfigError(
                    f"--out {out} is one file, and there are several pictures; name a folder"
                )
            for request, answer in answered if out is not None else ():
                path = out if out.suffix else out / f"{request.image.stem}.png"
                if path in drawn:
                    raise ConfigError(
                        f"--out {out}: two pictures would be {path.name}, {request.image} being "
                        "the second; draw them into different folders"
                    )
                drawn.add(path)
                _draw(path, request.image, answer)
            yield answered


def _draw(out: Path, image: Path, answer: Answer) -> None:
    """The picture with its boxes, as a file."""
    from regard.data.pictures import read_picture
    from regard.visual.boxes import LabelledBox, write_boxes

    sides = (answer["width"], answer["height"]) * 2
    boxes = [
        LabelledBox(
            tuple(x / side for x, side in zip(one["box"], sides, strict=True)),
            one["label"],
            one["score"],
        )
        for one in answer["objects"]
    ]
    write_boxes(out, read_picture(image), boxes)


class DescribePicture(PictureVerb):
    """A picture in, what it shows out."""

    name, task, wants = "caption", "captioning", "a captioner"
    summary = "Say what pictures show, one line a picture."
    help = "Scores are log-probabilities divided by the length penalty."
    doc = "What a picture shows, in words."
    chats = True

    @property
    @override
    def request(self) -> type[BaseModel]:
        from regard.tasks.requests import CaptionRequest

        return CaptionRequest

    @property
    @override
    def options(self) -> type[BaseModel]:
        from regard.tasks.requests import SearchOptions

        return SearchOptions

    @override
    def from_line(self, run: Any, line: str, options: Any) -> Any:
        told = {name: getattr(options, name) for name in ("beam", "n_best")}
        return self.request.model_construct(image=Path(line), **told, **options.sampling)

    @override
    def answer(self, run: Any, requests: Sequence[Any]) -> list[Answer]:
        answers: list[Answer] = []
        for how, some in groupby(requests, key=_how):
            pictures = [one.image for one in some]
            told = dict(how)
            n_best = told.pop("n_best")
            for several in run.hypotheses(pictures, n_best=n_best or 1, **told):
                found = [_described(run, one) for one in several]
                answers.append({**found[0], **({"hypotheses": found} if n_best else {})})
        return answers

    @override
    def as_line(self, request: Any, answer: Answer, options: Any) -> str:
        if "hypotheses" in answer:
            return "\n".join(f"{x['caption']}\t{x['score']:.4f}" for x in answer["hypotheses"])
        return str(answer["caption"])

    @override
    def replies(
        self, run: Any, image: str, text: str, n: int, *, at_most: int, **how: Any
    ) -> list[ChatReply]:
        (found,) = run.hypotheses([image], n_best=n, **how)
        return [ChatReply(run.text(one), len(one.ids) + 1, one.finished) for one in found]


def _how(request: Any) -> tuple[tuple[str, Any], ...]:
    names = ("beam", "n_best", "temperature", "top_k", "top_p", "seed")
    return tuple((name, getattr(request, name)) for name in names)


def _described(run: Any, one: Any) -> Answer:
    text = run.text(one).replace("\n", " ")  # one line out
    return {"caption": text, "score": one.score, "tokens": run.tokenizer.tokens(one.ids)}


CLASSIFY_PICTURE, CAPTION = ClassifyPicture(), DescribePicture()
ASK, DETECT = Ask(), Detect()
