"""What may be asked of runs: the fields of requests, with their bounds. No tensors here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

MAX_CHARACTERS = 5_000
"""In one text."""
MAX_DOCUMENT = 200_000
"""In one document."""
MAX_LINES = 128
"""Texts in one request."""
MAX_GUESSES = 50
"""Words for each mask, or answers to a question."""
MAX_NAME = 100
"""Characters of a name or a token."""
MAX_STOPS = 16
"""Words before which a text ends."""
MAX_BEAM = 16
"""Hypotheses that may be asked for."""
MAX_NEW = 4096
"""Tokens that may be asked for."""
URL = "data:image/"
"""How a picture begins that is sent as a data URL."""


def _no_picture(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(URL):
        raise ValueError("must be a text, not a picture")
    return value


def _a_picture(value: Any) -> Any:
    if not isinstance(value, str) or not value.startswith(URL) or ";base64," not in value[:60]:
        raise ValueError("must be a picture as a data URL, data:image/png;base64,…")
    if value.startswith(URL + "svg"):
        raise ValueError("must not be an SVG, as it may run scripts: send a PNG or a JPEG")
    return value


Text = Annotated[str, Field(max_length=MAX_CHARACTERS), BeforeValidator(_no_picture)]
Name = Annotated[str, Field(max_length=MAX_NAME)]
Key = Annotated[str | None, Field(max_length=MAX_NAME, description="If the server has one.")]
Stop = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]
Other = Annotated[
    Text | None, Field(description="The second text, where the run was trained on pairs.")
]


class Numbered(BaseModel):
    """Requests whose numbers are numbers: pydantic takes true for 1."""

    @field_validator("*", mode="before")
    @classmethod
    def _numbers(cls, value: Any, info: ValidationInfo) -> Any:
        kind = cls.model_fields[info.field_name or ""].annotation
        if isinstance(value, bool) and {int, float} & {kind, *get_args(kind)}:
            raise ValueError("must be a number, not true or false")
        return value


class Request(Numbered):
    """A body in which no unknown field may stand."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    api_key: Key = None


class Options(BaseModel):
    """What holds for a whole command; each field is an option of the command line."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class TranslateRequest(Request):
    """A sentence to translate."""

    source: Text = Field(min_length=1, description="A sentence.")
    prefix: Text = Field("", description="How its translation begins.")


class SamplingOptions(Options):
    """How tokens are sampled, or that they are not."""

    temperature: float | None = Field(
        None, description="Sample: below 1 surer, above 1 bolder; 0 is the most probable each time."
    )
    top_k: int | None = Field(None, description="Number of most probable tokens to sample from.")
    top_p: float | None = Field(
        None, description="Sample from the most probable tokens that reach this share."
    )
    seed: int | None = Field(None, description="Decides what is sampled.")

    @model_validator(mode="after")
    def _within_bounds(self) -> Self:
        if self.temperature is not None and not self.temperature >= 0:
            raise ValueError(f"temperature must be at least 0, got {self.temperature:g}")
        if self.top_k is not None and self.top_k < 1:
            raise ValueError(f"top_k must be at least 1, got {self.top_k}")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must be above 0 and at most 1, got {self.top_p:g}")
        return self

    @property
    def sampling(self) -> dict[str, Any]:
        """What was told, as runs take it."""
        return {name: getattr(self, name) for name in ("temperature", "top_k", "top_p", "seed")}


class SearchOptions(SamplingOptions):
    """How texts are searched for, or sampled."""

    beam: int | None = Field(None, ge=1, description="Hypotheses kept open; 1 is greedy.")
    n_best: int | None = Field(
        None, ge=1, description="Texts a line, the best first, with their scores."
    )


class TranslateOptions(SearchOptions):
    """How the command line translates."""

    prefix: str = Field("", description="How every translation begins.")
    batch_tokens: int = Field(16384, ge=1, description="Source tokens at once.")
    engine: str = Field(
        "native",
        description="native; ctranslate2, with the same weights; or auto: ctranslate2 on a CPU "
        "where it is installed and can run the model.",
    )
    compute_type: str | None = Field(
        None, description="What ctranslate2 computes in: int8, …; float32 if not given."
    )


class SummarizeRequest(Request):
    """A document to summarize."""

    document: Annotated[
        str, Field(min_length=1, max_length=MAX_DOCUMENT), BeforeValidator(_no_picture)
    ] = Field(description="A document.")
    truncate: bool = Field(
        False, description="Whether the end of a document that is too long is cut off."
    )


class SummarizeOptions(SearchOptions):
    """How the command line summarizes."""

    prefix: str = Field("", description="How every summary begins.")
    batch_tokens: int = Field(65536, ge=1, description="Tokens of documents at once.")
    truncate: bool = Field(False, description="Cut off the end of a document that is too long.")


MAX_IMAGE = 8 * 2**20
"""Characters of a picture, which is a data URL."""
Image = Annotated[
    str,
    Field(
        max_length=MAX_IMAGE,
        description="A picture as a data URL: data:image/png;base64,…",
        json_schema_extra={"format": "image"},
    ),
    BeforeValidator(_a_picture),
]


class PictureRequest(Request):
    """A picture."""

    image: Image


Threshold = Annotated[
    float, Field(ge=0, le=1, description="Objects less likely than this are left out.")
]


class DetectRequest(PictureRequest):
    """A picture in which objects are to be found."""

    threshold: Threshold = 0.5


class DetectOptions(Options):
    """How the command line finds objects."""

    threshold: Threshold = 0.5
    out: Path | None = Field(
        None,
        description="Draw the boxes into the picture and write it: a file (.png, .jpg, .webp, "
        ".svg, .pdf) for one picture, a folder for several.",
    )


class AskRequest(Request):
    """A question about a picture."""

    image: Image
    question: Text = Field(min_length=1, description="What to ask about the picture.")


class AskOptions(Options):
    """How the command line asks about pictures."""

    question: str | None = Field(None, min_length=1, description="What to ask about every picture.")


class CaptionRequest(PictureRequest):
    """A picture, and how its caption is searched for."""

    beam: int | None = Field(None, ge=1, le=MAX_BEAM, description="Hypotheses kept open.")
    n_best: int | None = Field(None, ge=1, le=MAX_BEAM, description="Captions, the best first.")
    temperature: float | None = Field(
        None, ge=0, le=5, allow_inf_nan=False, description="Sample; 0 takes the likeliest token."
    )
    top_k: int | None = Field(
        None, ge=1, le=100_000, description="Only this many of the likeliest tokens."
    )
    top_p: float | None = Field(
        None, gt=0, le=1, allow_inf_nan=False, description="Only the likeliest of this share."
    )
    seed: int | None = Field(None, ge=0, lt=2**53, description="For the same caption again.")


class ClassifyRequest(Request):
    """A text, or a pair of texts, that is to get a label."""

    text: Text = Field(min_length=1, description="A text.")
    other: Other = None


class FillRequest(Request):
    """A text in which words are left out."""

    text: Text = Field(min_length=1, description="A text with <mask> where a word is left out.")
    n: int = Field(5, ge=1, le=MAX_GUESSES, description="Guesses for each mask.")


class FillOptions(Options):
    """How the command line guesses words."""

    n: int | None = Field(
        None, ge=1, description="Number of guesses to print for each mask: `word TAB probability`."
    )


class AnswerRequest(Request):
    """A question, and the text that has its answer in it."""

    question: Text = Field(min_length=1, description="What to ask.")
    text: Text = Field(min_length=1, description="A text that has the answer in it.")
    n: int = Field(1, ge=1, le=MAX_GUESSES, description="Answers, the likeliest first.")


class AnswerOptions(Options):
    """How the command line asks."""

    question: str | None = Field(
        None, description="What to ask; else each line of standard input is asked."
    )
    text: str | None = Field(None, description="The text that has the answer in it.")
    file: Path | None = Field(None, description="A file that holds the text.")
    top: int | None = Field(
        None, ge=1, description="Number of answers to print, with an empty line after them."
    )


class EmbedRequest(Request):
    """Texts whose vectors are wanted."""

    texts: list[Text] = Field(min_length=1, max_length=MAX_LINES, description="Texts.")


class EmbedOptions(Options):
    """What the command line makes of vectors."""

    nearest: Path | None = Field(
        None, description="Print the sentences of this file nearest to each line."
    )
    n: int | None = Field(None, ge=1, description="How many of them; 5 if not given.")


class NearestRequest(Request):
    """A text, and others that may say the same."""

    text: Text = Field(min_length=1, description="A text.")
    others: list[Text] = Field(
        min_length=1, max_length=MAX_LINES, description="Texts to compare it with."
    )


class NeighboursRequest(Request):
    """A word whose nearest words are wanted."""

    text: Text = Field(min_length=1, description="A word, or several.")
    n: int = Field(5, ge=1, le=MAX_GUESSES, description="Words, the nearest first.")


class NeighboursOptions(Options):
    """How many words the command line prints."""

    n: int = Field(5, ge=1, description="Words a line, the nearest first.")


class GenerateRequest(Request):
    """A prompt to write on from, and how."""

    prompt: Text = Field("", description="A text.")
    max_tokens: int = Field(40, ge=1, le=MAX_NEW, description="Tokens to write at most.")
    temperature: float = Field(
        1.0, ge=0, le=5, allow_inf_nan=False, description="0 takes the most probable token."
    )
    top_k: int | None = Field(
        None, ge=1, le=100_000, description="Only this many of the likeliest tokens."
    )
    top_p: float | None = Field(
        None, gt=0, le=1, allow_inf_nan=False, description="Only the likeliest of this share."
    )
    stop: list[Stop] = Field([], max_length=MAX_STOPS, description="Words before which it ends.")
    seed: int | None = Field(None, ge=0, lt=2**53, description="For the same text again.")


class GenerateOptions(SearchOptions):
    """How the command line writes on: it samples with temperature 1 where nothing is told."""

    max_new: int = Field(200, ge=1, description="Most tokens to write.")
    n: int = Field(1, ge=1, description="Texts a prompt.")
    stop: list[str] = Field([], description="End before these words; may be given again.")
    truncate: Literal["left"] | None = Field(
        None, description="Cut off the beginning of a prompt that is too long."
    )
    stream: bool = Field(False, description="Print while writing.")


class ChatOptions(SamplingOptions):
    """How the command line talks."""

    message: str | None = Field(None, description="Say this, print the answer, and end.")
    system: str | None = Field(None, description="What the model is told before the first turn.")
    max_new: int = Field(500, ge=1, description="Most tokens of an answer.")
    stop: list[str] = Field([], description="End before these words; may be given again.")
    truncate: Literal["left"] | None = Field(
        None, description="Drop the oldest turns of what is too long."
    )
