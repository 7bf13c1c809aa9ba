"""What a user may ask of the data: a built-in world, or files of their own."""

from __future__ import annotations

import re
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationInfo, field_validator

from regard.core.errors import DataError
from regard.core.registry import did_you_mean
from regard.data.records import Fit, Resample
from regard.data.worlds.registry import WORLDS, WorldRequest

Files = str | tuple[str, str]
"""A file, a pattern that matches files, or two of either whose lines belong together."""
MOST_DRAWN = 1_000_000
"""Training records of a world: ten times as many as any recipe has, and minutes of drawing them."""
Split = Literal["train", "valid", "test"]
LossOn = Literal["target", "all"]


class AugmentSettings(BaseModel):
    """The section ``augment`` of ``data``: how pictures are changed while training."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    crop: int = Field(
        0, ge=0, description="Pixels that a picture may be shifted by; what is new is mirrored."
    )
    flip: bool = Field(
        False, description="Whether half of the pictures are mirrored left to right."
    )
    flip_down: bool = Field(
        False, description="Whether half of the pictures are mirrored top to bottom."
    )
    zoom: float = Field(
        1.0,
        gt=0,
        le=1,
        description="The smallest share of its sides that is cut out of a picture and enlarged.",
    )
    colour: float = Field(
        0.0, ge=0, le=1, description="How far brightness, contrast and saturation may change."
    )
    randaugment: int = Field(0, ge=0, le=4, description="Changes a picture, by RandAugment.")
    magnitude: int = Field(9, ge=0, le=10, description="How large the changes of RandAugment are.")
    mixup: float = Field(
        0.0, ge=0, description="α: pictures are blended with others by a share from Beta(α, α)."
    )
    cutmix: float = Field(
        0.0, ge=0, description="α: a part of a picture is taken from another, by Beta(α, α)."
    )

    @property
    def mixes(self) -> bool:
        """Whether pictures get parts of others, and so shares of their labels."""
        return bool(self.mixup or self.cutmix)


def _one_file_or_two(files: Any) -> Any:
    names = files if isinstance(files, list | tuple) and len(files) == 2 else [files]
    if files is None or all(isinstance(name, str) and name for name in names):
        return files
    raise ValueError(f"expected a file name or two of them, [source, target], but found {files!r}")


class CorpusSettings(BaseModel):
    """An entry of ``mix`` of ``data``: one of several corpora."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    train: Files = Field(description="As train of data: a file, a pattern, or two of either.")
    weight: float = Field(
        1.0,
        gt=0,
        allow_inf_nan=False,
        description="How much of an epoch comes from here, beside the weights of the others.",
    )

    _named = field_validator("train", mode="before")(_one_file_or_two)


class DataSettings(BaseModel):
    """The section ``data`` of a recipe: a world, or files for at least ``train``.

    Each check belongs to one field and looks only at fields before it, so that all problems are
    found in one go.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    world: str | None = Field(None, description="Built-in data: " + ", ".join(WORLDS) + ".")
    direction: str = Field(
        "en-fr",
        pattern=r"^[a-z]{2,3}-[a-z]{2,3}$",
        description="Languages of source and target, as two codes with a hyphen: any two of 2 or 3 "
        "small letters will do, invented ones too.",
    )
    folder: str | None = Field(
        None, min_length=1, description="Where the files lie that are named here."
    )
    mix: tuple[CorpusSettings, ...] | None = Field(
        None,
        description="Several corpora instead of train, each with a weight; needs shards. An epoch "
        "has as many pairs (for a language model tokens) as all corpora together, and each corpus "
        "gives the share of its weight: it is gone through again and again, each time in another "
        "order, every epoch going on where the one before ended. So within a corpus no pair comes "
        "an n-th time before all have come n - 1 times.",
    )
    train: Files | None = Field(
        None,
        description="A .tsv, .txt (tabs too), .jsonl or .parquet file, or two parallel files; for "
        "a language model one file of plain text, or .jsonl or .parquet with a field text; of "
        "questions also .json as SQuAD has it; "
        "perhaps with .gz or .xz, which a name may leave out. A pattern stands for all files that "
        "it matches, in the order of their names, as in corpus/*.jsonl.gz; two patterns for "
        "pairs of files.",
    )
    valid: Files | None = Field(
        None,
        description="As train. When it is not given, min(1000, 5 %) of train are held out, "
        "no source sentence being on both sides; of plain text the last 5 % of the lines.",
    )
    test: Files | None = Field(None, description="As train.")
    columns: tuple[int, ...] | None = Field(
        None,
        description="Columns of tab-separated files, counted from 1; others are passed over. "
        "Source and target; text and label; text, other text and label or score.",
    )
    pattern: str | None = Field(
        None,
        description="A regular expression that every line matches, for files without columns: its "
        "groups text, other, label and score are read, as in (?P<label>\\w+) (?P<text>.*).",
    )
    prompt: str | None = Field(
        None,
        description="For a language model: lines are texts with their labels or translations, and "
        "each is learned as this text with the label behind it, as in review: {text} opinion: "
        "({other} stands for the second text of a line).",
    )
    hold_out: int | None = Field(
        None,
        ge=1,
        description="Number of pairs of train for each of valid and test that has no files; pairs "
        "that share a sentence, source or target, stay together. Of plain text the number of last "
        "lines, for valid.",
    )
    shards: str | None = Field(
        None,
        min_length=1,
        description="A folder in which `regard prepare RECIPE` has put the training texts as ids. "
        "Training reads them from there, a window at a time, so that memory is bounded whatever "
        "the size of the corpus; the tokenizer lies there too. Needs valid.",
    )
    window_tokens: int = Field(
        2**23,
        ge=1,
        description="Tokens of shards that are in memory together, 4 bytes each and their index. "
        "Shards come in another order each epoch, and what lies in one window is shuffled.",
    )
    images: str | dict[Split, str] | None = Field(
        None,
        description="A folder, a tar or a zip archive in which the pictures lie that lines name; "
        "where each split has its own, by the name of the split. Without it they lie beside the "
        "file.",
    )
    question_kind: str = Field(
        "kind",
        min_length=1,
        description="Key or column that says of which kind a question about a picture is; accuracy "
        "is told by kind.",
    )
    image_size: int | None = Field(
        None, ge=4, le=1024, description="Pixels of a side that every picture is brought to."
    )
    longest_edge: int | None = Field(
        None, ge=4, le=4096, description="With fit keep, the most pixels of the longer side."
    )
    fit: Fit = Field(
        "crop",
        validate_default=True,
        description="How a picture becomes square: cut out of its middle, scaled in each "
        "direction (squash), or with grey beside it (pad). With keep it stays in proportion, its "
        "shorter side being image_size: for detectors that others have trained.",
    )
    resample: Resample = Field(
        "bicubic", description="How pixels are computed where a picture changes its size."
    )
    augment: AugmentSettings = Field(
        AugmentSettings(), description="How pictures are changed while training."
    )
    language: Literal["en", "fr"] = Field("en", description="Of the captions of a world.")
    long_lines: Literal["truncate", "drop"] = Field(
        "drop", description="What happens to a pair with a side longer than model.max_len."
    )
    truncate: bool = Field(
        False,
        description="Whether a document longer than model.max_len is cut; else it is refused.",
    )
    document_length: int | None = Field(
        None, ge=1, description="Words of a document of the world documents; 500 if not given."
    )
    loss_on: LossOn = Field(
        "target",
        description="What a model for which source and target are one text learns to predict: the "
        "target, or all tokens, those of the source included.",
    )
    n_train: int | None = Field(
        None, ge=1, le=MOST_DRAWN, description="How many training pairs a world makes."
    )
    world_seed: int = Field(0, ge=0, description="What a world is made from, or valid held out by.")

    _stranger: str | None = PrivateAttr(None)
    """The run folder that names these files, where it came from elsewhere and is not trusted."""

    def distrusted(self, run: str) -> DataSettings:
        """The same, as said by a run that nobody here trained: its files are not read."""
        data = self.model_copy()
        data._stranger = run
        return data

    @property
    def is_trusted(self) -> bool:
        """Whether the files that are named here may be read."""
        return self._stranger is None

    def check_trusted(self) -> None:
        """Refuse to read files that the settings of a stranger's run name."""
        if self._stranger is not None:
            raise DataError(
                f"{self._stranger} was not trained here, and its config.yaml names data outside "
                "its folder, which is not read unless you say so: look at its data section, then "
                "add --trust-data (in Python, load(…, trust_data=True))"
            )

    @property
    def plain(self) -> bool:
        """Whether texts are those of a world that knows neither capitals nor signs."""
        return self.world is not None and WORLDS[self.world].plain

    def world_request(self) -> WorldRequest:
        """Which world is asked for, and how large."""
        assert self.world is not None, "there are files"
        size = {} if self.n_train is None else {"n_train": self.n_train}
        size |= {} if self.image_size is None else {"size": self.image_size}
        size |= {} if self.document_length is None else {"length": self.document_length}
        how = {"seed": self.world_seed, **size}
        return WorldRequest(self.world, self.direction, how, self.language)

    @field_validator("world")
    @classmethod
    def _known_world(cls, world: str | None) -> str | None:
        if world is not None and world not in WORLDS:
            hint = did_you_mean(world, WORLDS)
            raise ValueError(f"unknown world {world!r}{hint}; known: {', '.join(WORLDS)}")
        return world

    @field_validator("direction")
    @classmethod
    def _spoken_in_the_world(cls, direction: str, info: ValidationInfo) -> str:
        world = info.data.get("world")
        spoken = WORLDS[world].directions if world is not None else ()
        if spoken and direction not in spoken:
            raise ValueError(f"world {world!r} has {' and '.join(spoken)}, not {direction!r}")
        return direction

    _named = field_validator("train", "valid", "test", mode="before")(_one_file_or_two)

    @property
    def corpora(self) -> tuple[CorpusSettings, ...]:
        """What is trained on: the corpora of a mix, or the one there is."""
        if self.mix is not None:
            return self.mix
        assert self.train is not None, "a world has no files"
        return (CorpusSettings(train=self.train, weight=1.0),)

    @field_validator("mix")
    @classmethod
    def _something_to_mix(
        cls, mix: tuple[CorpusSettings, ...] | None
    ) -> tuple[CorpusSettings, ...] | None:
        if mix == ():
            raise ValueError("expected corpora, each with train and perhaps weight, but found none")
        return mix

    @field_validator("train")
    @classmethod
    def _world_or_files(cls, train: Files | None, info: ValidationInfo) -> Files | None:
        if "world" not in info.data:  # it has a problem of its own
            return train
        world, mix = info.data["world"], info.data.get("mix")
        if mix is not None and train is not None:
            raise ValueError("data.mix names files too; keep one of them")
        if world is None and train is None and "mix" in info.data and mix is None:
            raise ValueError(
                "no data: name files here, or a built-in world (data.world: sentences)"
            )
        if world is not None and train is not None:
            raise ValueError(f"data.world={world!r} is given too; keep one of them")
        return train

    @field_validator("valid", "test")
    @classmethod
    def _files_beside_files(cls, files: Files | None, info: ValidationInfo) -> Files | None:
        world = info.data.get("world")
        if files is not None and world is not None:
            raise ValueError(f"world {world!r} brings its own; leave this out")
        return files

    @field_validator("columns")
    @classmethod
    def _columns_of_a_table(
        cls, columns: tuple[int, ...] | None, info: ValidationInfo
    ) -> tuple[int, ...] | None:
        if columns is None:
            return None
        if len(columns) not in (2, 3) or min(columns) < 1 or len({*columns}) < len(columns):
            raise ValueError(
                f"expected two columns or three, counted from 1, but found {list(columns)}"
            )
        named = [info.data.get(split) for split in ("train", "valid", "test")]
        named += [corpus.train for corpus in info.data.get("mix") or ()]
        keyed = (".jsonl", ".parquet")
        if not any(isinstance(one, str) and not any(x in one for x in keyed) for one in named):
            raise ValueError("only tab-separated files have columns, and none is named")
        return columns

    @field_validator("pattern")
    @classmethod
    def _matches_lines(cls, pattern: str | None, info: ValidationInfo) -> str | None:
        if pattern is None:
            return None
        if info.data.get("columns") is not None:
            raise ValueError("data.columns is given too; keep one of them")
        try:
            groups = re.compile(pattern).groupindex
        except re.error as error:
            raise ValueError(f"no regular expression: {error}") from None
        unknown = sorted({*groups} - {"text", "other", "label", "score"})
        if unknown or "text" not in groups:
            raise ValueError(
                "expected groups named text, other, label and score, text at least, but found "
                f"{', '.join(groups) or 'none'}"
            )
        return pattern

    @field_validator("prompt")
    @classmethod
    def _a_text_to_go_on_from(cls, prompt: str | None, info: ValidationInfo) -> str | None:
        if prompt is None:
            return None
        rest = prompt.replace("{text}", "").replace("{other}", "")
        if "{text}" not in prompt or set(rest) & set("{}"):
            raise ValueError(
                f"expected a text with {{text}} in it, and perhaps {{other}}, but found {prompt!r}"
            )
        return prompt.rstrip()

    @field_validator("hold_out")
    @classmethod
    def _something_to_hold_out_for(cls, n: int | None, info: ValidationInfo) -> int | None:
        if n is not None and info.data.get("valid") and info.data.get("test"):
            raise ValueError("data.valid and data.test name files, so nothing is to be held out")
        return n

    @field_validator("shards")
    @classmethod
    def _what_lies_in_shards(cls, shards: str | None, info: ValidationInfo) -> str | None:
        if shards is None:
            if info.data.get("mix") is not None:
                raise ValueError(
                    "data.mix draws from shards: name a folder here and fill it by `regard prepare`"
                )
            return None
        if info.data.get("world") is None and "valid" in info.data and info.data["valid"] is None:
            raise ValueError("nothing is held out of shards; name files in data.valid")
        for name in ("prompt", "hold_out"):
            if info.data.get(name) is not None:
                raise ValueError(f"data.{name} needs all texts in memory; leave out one of them")
        return shards

    @field_validator("fit")
    @classmethod
    def _sides_of_pictures_in_proportion(cls, fit: Fit, info: ValidationInfo) -> Fit:
        shortest, longest = (info.data.get(name) for name in ("image_size", "longest_edge"))
        if fit != "keep" and longest is not None:
            raise ValueError(
                f"data.longest_edge={longest} is for pictures that keep their proportions: set "
                "fit=keep, or leave it out"
            )
        if fit == "keep" and not 1 <= (shortest or 0) <= (longest or 0):
            raise ValueError(
                "'keep' needs data.image_size, the pixels of the shorter side, and a "
                f"data.longest_edge that is not less; found {shortest} and {longest}"
            )
        return fit

    @field_validator("document_length")
    @classmethod
    def _only_a_world_draws_documents(cls, length: int | None, info: ValidationInfo) -> int | None:
        world = info.data.get("world", "documents")
        if length is not None and world != "documents":
            raise ValueError("only the world 'documents' draws documents; leave this out")
        return length

    @field_validator("n_train")
    @classmethod
    def _only_worlds_have_a_size(cls, n_train: int | None, info: ValidationInfo) -> int | None:
        if n_train is not None and info.data.get("world", "") is None:
            raise ValueError(
                "only a world can be asked for a number of pairs; files are read whole"
            )
        return n_train

    @field_validator("mix", "folder", "pattern", "prompt", "hold_out", "shards", "images")
    @classmethod
    def _of_files_only(cls, value: Any, info: ValidationInfo) -> Any:
        world = info.data.get("world")
        if value is not None and world is not None:
            raise ValueError(f"world {world!r} has no files; leave this out")
        return value
