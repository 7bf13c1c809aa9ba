"""Families of models and every system by its name; from a recipe's section to a built model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Self, cast, overload

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    create_model,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, InitErrorDetails, PydanticCustomError, ValidationError
from torch import nn

from regard.core.errors import ConfigError
from regard.core.registry import Registry
from regard.core.settings import parse, setting_hint
from regard.functional.attend import NORMALISERS
from regard.functional.scores import SCORES
from regard.layers.blocks import NORMS
from regard.layers.feed_forward import ACTIVATIONS
from regard.layers.positions import POSITIONS
from regard.layers.window import WINDOWS
from regard.models.base import SequenceModel
from regard.models.bytenet import ByteNet, ByteNetConfig
from regard.models.captioner import (
    Captioner,
    CaptionerConfig,
    TransformerCaptioner,
    TransformerCaptionerConfig,
)
from regard.models.convs2s import ConvS2S, ConvS2SConfig
from regard.models.decoder import LanguageModel
from regard.models.detection import DetectionConfig, Detector
from regard.models.encoder import Encoder
from regard.models.fast_forward import FastForwardConfig, FastForwardTranslator
from regard.models.memory_network import MemoryNetwork, MemoryNetworkConfig
from regard.models.prefix_decoder import PrefixDecoder, PrefixDecoderConfig
from regard.models.recurrent import RecurrentConfig, RecurrentTranslator
from regard.models.residual_recurrent import ResidualRecurrentConfig, ResidualTranslator
from regard.models.settings import (
    DecoderConfig,
    EncoderConfig,
    ModelConfig,
    SequenceConfig,
    TransformerConfig,
)
from regard.models.skip_gram import SkipGram, SkipGramConfig
from regard.models.transformer import Transformer
from regard.models.vision import VisionConfig, VisionTransformer
from regard.models.visual_questions import VisualQuestionsConfig, visual_questions

NAMES: Mapping[str, Registry[Any]] = {
    "score": SCORES,
    "window": WINDOWS,
    "normaliser": NORMALISERS,
    "positions": POSITIONS,
    "activation": ACTIVATIONS,
    "norm": NORMS,
}
"""Settings whose values are names of a registry."""


@dataclass(frozen=True, slots=True)
class Family:
    """Models of one kind: what describes them, and what builds them."""

    config: type[ModelConfig]
    model: Callable[[Any], nn.Module]


@dataclass(frozen=True, slots=True)
class Preset:
    """A system of a paper: a family with its numbers."""

    family: str
    summary: str
    sizes: Mapping[str, Mapping[str, Any]]
    """Settings by size; the first is the default."""


FAMILIES: Registry[Family] = Registry("family of models")
FAMILIES.add("transformer")(Family(TransformerConfig, Transformer))
FAMILIES.add("recurrent")(Family(RecurrentConfig, RecurrentTranslator))
FAMILIES.add("memory_network")(Family(MemoryNetworkConfig, MemoryNetwork))
FAMILIES.add("residual_recurrent")(Family(ResidualRecurrentConfig, ResidualTranslator))
FAMILIES.add("fast_forward")(Family(FastForwardConfig, FastForwardTranslator))
FAMILIES.add("convs2s")(Family(ConvS2SConfig, ConvS2S))
FAMILIES.add("bytenet")(Family(ByteNetConfig, ByteNet))
FAMILIES.add("prefix_decoder")(Family(PrefixDecoderConfig, PrefixDecoder))
FAMILIES.add("encoder")(Family(EncoderConfig, Encoder))
FAMILIES.add("skip_gram")(Family(SkipGramConfig, SkipGram))
FAMILIES.add("decoder")(Family(DecoderConfig, LanguageModel))
FAMILIES.add("vision")(Family(VisionConfig, VisionTransformer))
FAMILIES.add("visual_questions")(Family(VisualQuestionsConfig, visual_questions))
FAMILIES.add("detection")(Family(DetectionConfig, Detector))
FAMILIES.add("captioner")(Family(CaptionerConfig, Captioner))
FAMILIES.add("transformer_captioner")(Family(TransformerCaptionerConfig, TransformerCaptioner))

PRESETS: Registry[Preset] = Registry("model preset")


def _blocks(*numbers: int, **others: Any) -> dict[str, Any]:
    """A size of a Transformer."""
    return dict(zip(("d_model", "n_layers", "n_heads", "d_ff"), numbers, strict=True), **others)


def _recurrent(summary: str, family: str = "recurrent", **system: Any) -> Preset:
    """A recurrent system in three widths."""
    widths = {"tiny": 128, "small": 256, "base": 512}
    sizes = {size: {"d_model": width, **system} for size, width in widths.items()}
    return Preset(family, summary, sizes)


def _stacked(*numbers: int, **others: Any) -> dict[str, Any]:
    """A size of a system with deep stacks."""
    names = ("d_model", "n_layers", "n_decoder_layers")
    return dict(zip(names, numbers, strict=True), **others)


_LUONG: dict[str, Any] = {"decoder": "luong", "n_layers": 2, "input_feeding": True}
_MOE: dict[str, Any] = {"residual_from": 1, "top_k": 4, "score": "tanh_product"}
_SEQ2SEQ: dict[str, Any] = {**_LUONG, "score": "additive", "bidirectional": True, "max_len": 500}
_DMCA: dict[str, Any] = {"windows": ("block", "compressed"), "half_width": 128, "max_len": 11_000}
_JOINT: dict[str, Any] = {"reader": "joint", "score": "scaled_dot", "norm_first": True}
_SAN: dict[str, Any] = {"family": "visual_questions", "encoder": "conv"}

for _name, _preset in {
    "transformer": Preset(
        "transformer",
        "Encoder-decoder Transformer (Vaswani et al. 2017)",
        {
            "tiny": _blocks(128, 2, 4, 512),
            "small": _blocks(256, 3, 4, 1024),
            "base": _blocks(512, 6, 8, 2048),
            "big": _blocks(1024, 6, 16, 4096, dropout=0.3),
        },
    ),
    "sutskever2014": _recurrent(
        "LSTM to one vector to LSTM, no attention (Sutskever et al. 2014)",
        decoder="plain",
        n_layers=2,
        reverse_source=True,
    ),
    "cs224n2019": _recurrent(
        "LSTM decoder with dot products, [a; s] (CS224N 2019)", decoder="plain", score="dot"
    ),
    "bahdanau2015": _recurrent(
        "Bidirectional GRU, additive score, context inside the GRU (Bahdanau et al. 2015)",
        decoder="bahdanau",
        cell="gru",
        bidirectional=True,
        score="additive",
    ),
    "luong2015": _recurrent(
        "Stacked LSTM, attentional state, input feeding; any score and window (Luong et al. 2015)",
        **_LUONG,
        score="general",
    ),
    "graves2014": _recurrent(
        "Luong's decoder with the content score β·cos (Graves et al. 2014)",
        **_LUONG,
        score="content",
        beta="emitted",
    ),
    "cheng2016": _recurrent(
        "LSTMs with self-attention to all their states, deep or shallow fusion (Cheng et al. 2016)",
        family="memory_network",
    ),
    "gnmt2016": Preset(
        "residual_recurrent",
        "Deep LSTMs with residuals; the lowest decoder layer attends for all (Wu et al. 2016)",
        {
            "tiny": _stacked(128, 4, 4),
            "small": _stacked(256, 4, 4),
            "base": _stacked(512, 8, 8),
            "big": _stacked(1024, 8, 8),
        },
    ),
    "deep-att2016": Preset(
        "fast_forward",
        "Deep LSTMs of alternating directions, fast-forward connections (Zhou et al. 2016)",
        {
            "tiny": _stacked(128, 3, 3),
            "small": _stacked(256, 5, 4),
            "base": _stacked(512, 9, 7),
        },
    ),
    "moe2017": Preset(
        "residual_recurrent",
        "Experts between layers of projected LSTMs with residuals (Shazeer et al. 2017)",
        {
            "tiny": _stacked(128, 3, 2, d_cell=512, experts=8, d_expert=256, **_MOE),
            "small": _stacked(256, 3, 2, d_cell=1024, experts=16, d_expert=512, **_MOE),
            "base": _stacked(512, 3, 2, d_cell=2048, experts=32, d_expert=2048, **_MOE),
        },
    ),
    "bytenet2016": Preset(
        "bytenet",
        "Dilated convolutions, the decoder's on the encoder's, no attention"
        " (Kalchbrenner et al. 2016)",
        {
            "tiny": {"d_model": 64, "n_sets": 2},
            "small": {"d_model": 128, "n_sets": 3},
            "base": {"d_model": 800, "n_sets": 6},
        },
    ),
    "convs2s2017": Preset(
        "convs2s",
        "Gated convolutions, attention in every decoder layer (Gehring et al. 2017)",
        {
            "tiny": _stacked(128, 4, 3),
            "small": _stacked(256, 4, 3),
            "base": _stacked(512, 10, 10, top_layers=((768, 3),) * 3 + ((2048, 1),) * 2),
        },
    ),
    "seq2seq-attention": Preset(
        "recurrent",
        "Stacked LSTMs with additive attention, to summarize (Liu et al. 2018)",
        {
            size: {"d_model": width, **_SEQ2SEQ}
            for size, width in {"tiny": 64, "small": 96, "base": 128}.items()
        },
    ),
    "transformer-ed": Preset(
        "transformer",
        "Encoder-decoder Transformer, to summarize (Liu et al. 2018)",
        {
            "tiny": _blocks(128, 2, 4, 512, max_len=500),
            "small": _blocks(256, 3, 4, 1024, max_len=500),
            "base": _blocks(512, 6, 8, 2048, max_len=500),
        },
    ),
    "transformer-d": Preset(
        "prefix_decoder",
        "Decoder alone over source and target as one text (Liu et al. 2018)",
        {
            "tiny": _blocks(128, 4, 4, 512, max_len=4000),
            "small": _blocks(256, 6, 4, 1024, max_len=4000),
            "base": _blocks(512, 6, 8, 2048, max_len=4000),
        },
    ),
    "dmca2018": Preset(
        "prefix_decoder",
        "The same with local blocks and compressed memory in turn (Liu et al. 2018)",
        {
            "tiny": _blocks(128, 5, 4, 512, **_DMCA),
            "small": _blocks(256, 5, 4, 1024, **_DMCA),
            "base": _blocks(512, 5, 8, 2048, **_DMCA),
        },
    ),
    "bert": Preset(
        "encoder",
        "Encoder alone, to classify, compare, fill in and find (Devlin et al. 2019)",
        {
            "tiny": _blocks(128, 2, 2, 512),
            "mini": _blocks(256, 4, 4, 1024),
            "small": _blocks(512, 4, 8, 2048),
            "base": _blocks(768, 12, 12, 3072),
        },
    ),
    "bilstm": _recurrent(
        "LSTM both ways, then attention with a learned query, to classify (Yang et al. 2016)",
        family="encoder",
        n_layers=1,
        cell="lstm",
        pooling="attention",
        positions="none",
    ),
    "word2vec2013": Preset(
        "skip_gram",
        "Vectors of words by the company they keep, skip-gram (Mikolov et al. 2013)",
        {
            size: {"d_model": width}
            for size, width in {"tiny": 64, "small": 128, "base": 300}.items()
        },
    ),
    "gpt": Preset(
        "decoder",
        "Decoder alone, to write on (Radford et al. 2018)",
        {
            "tiny": _blocks(128, 4, 4, 512),
            "small": _blocks(384, 6, 6, 1536),
            "base": _blocks(768, 12, 12, 3072),
        },
    ),
    "vit2021": Preset(
        "vision",
        "Encoder over the patches of a picture (Dosovitskiy et al. 2021)",
        {
            "tiny": _blocks(192, 12, 3, 768),
            "small": _blocks(384, 12, 6, 1536),
            "base": _blocks(768, 12, 12, 3072),
        },
    ),
    "detr2020": Preset(
        "detection",
        "Queries that find objects in a picture, as a set (Carion et al. 2020)",
        {
            "tiny": _blocks(64, 2, 4, 256),
            "small": _blocks(128, 3, 8, 512),
            "base": _blocks(256, 6, 8, 2048, n_queries=100),
        },
    ),
    "san2016": _recurrent(
        "LSTM that looks at the picture twice to answer a question (Yang et al. 2016)", **_SAN
    ),
    "dan2018": _recurrent(
        "The same, taught where to look by similar and opposite examples (Patro et al. 2018)",
        **_SAN,
        differential="loss",
    ),
    "dcn2018": _recurrent(
        "The same, with what the examples have in common (Patro et al. 2018)",
        **_SAN,
        differential="context",
    ),
    "joint-vqa": Preset(
        "visual_questions",
        "Transformer over the words of a question and the patches of a picture together",
        {
            "tiny": _blocks(128, 4, 4, 512, **_JOINT),
            "small": _blocks(256, 4, 4, 1024, **_JOINT),
        },
    ),
    "show-and-tell2014": _recurrent(
        "LSTM that reads the picture once, then tells (Vinyals et al. 2015)",
        family="captioner",
        encoder="conv",
        decoder="tell",
    ),
    "show-attend-tell2015": _recurrent(
        "LSTM that looks at the picture for every word, soft or hard (Xu et al. 2015)",
        family="captioner",
        encoder="conv",
        decoder="attend",
    ),
    "transformer-captioner": Preset(
        "transformer_captioner",
        "Transformer over the patches of a picture",
        {
            "tiny": _blocks(128, 2, 4, 512),
            "small": _blocks(256, 3, 4, 1024),
            "base": _blocks(512, 6, 8, 2048),
        },
    ),
}.items():
    PRESETS.add(_name)(_preset)


class ModelSettings(BaseModel):
    """The section ``model`` of a recipe: a preset, its size, and settings of the preset's family.

    What is not given comes from the preset and its size. Settings are those of the family's
    configuration; one that the family does not have is refused with the list of those it has.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    preset: str = Field("transformer", description="Which system; `regard models` lists them.")
    size: str | None = Field(None, description="A size of the preset, such as tiny or base.")

    @model_validator(mode="after")
    def _of_its_family(self) -> Self:
        preset, given = PRESETS[self.preset], self.given()
        settings = settings_of(FAMILIES[preset.family].config)
        known, problems = settings.model_fields, []
        if self.size is not None and self.size not in preset.sizes:
            problems.append(self._no("size", self.size, preset.sizes, "size", self.size))
        for name in [name for name in given if name not in known]:
            there = [*type(self).model_fields, *known]
            problems.append(self._no("setting", name, there, name, given.pop(name)))
        try:
            settings.model_validate(given)
        except ValidationError as error:
            problems += cast("list[InitErrorDetails]", error.errors())
        if problems:
            raise ValidationError.from_exception_data("model", problems)
        return self

    def _no(
        self, what: str, name: str, known: Iterable[str], key: str, value: object
    ) -> InitErrorDetails:
        elsewhere = what == "setting" and name in self.names()
        hint = "" if elsewhere else setting_hint(name, known)
        remedy = f"; leave it out, as {name}=null does" if elsewhere else ""
        message = (
            f"preset {self.preset!r} has no {what} {name!r}{hint}; it has "
            f"{', '.join(known)}{remedy}"
        )
        kind = PydanticCustomError("of_its_family", message)
        return InitErrorDetails(type=kind, loc=(key,), input=value)

    def given(self) -> dict[str, Any]:
        """What was asked for beyond preset and size."""
        return {k: v for k, v in (self.model_extra or {}).items() if v is not None}

    @classmethod
    def names(cls) -> list[str]:
        """All that can be set in some family."""
        configs = [cls, *(settings_of(family.config) for family in FAMILIES.values())]
        return list(dict.fromkeys(name for one in configs for name in one.model_fields))

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        schema = handler.resolve_ref_schema(handler(core_schema))
        common = schema.pop("properties")
        schema["additionalProperties"] = True
        schema["oneOf"] = [_family_schema(name, common) for name in FAMILIES]
        return schema


@cache
def settings_of(config: type[ModelConfig]) -> type[BaseModel]:
    """A family's settings as a user gives them: any of them, or none."""
    fields: dict[str, Any] = {
        name: (
            Annotated[field.annotation, Field(), *field.metadata] | None,
            Field(None, description=field.description),
        )
        for name, field in config.model_fields.items()
        if name not in config.FROM_DATA
    }
    return create_model(
        config.__name__.replace("Config", "Settings"),
        __config__=ConfigDict(extra="forbid"),
        **fields,
    )


def _family_schema(name: str, common: Mapping[str, Any]) -> dict[str, Any]:
    """The section as JSON schema for one family; names of registries are listed."""
    schema = settings_of(FAMILIES[name].config).model_json_schema()
    own = cast("dict[str, Any]", schema["properties"])
    for key, registry in NAMES.items():
        if key in own:
            own[key]["examples"] = list(registry)
    presets = [preset for preset, one in PRESETS.items() if one.family == name]
    default = ModelSettings.model_fields["preset"].default
    return {
        "title": name,
        "properties": {**common, "preset": {**common["preset"], "enum": presets}, **own},
        "required": [] if default in presets else ["preset"],
        "additionalProperties": False,
    }


def presets_for(config: type[ModelConfig]) -> list[str]:
    """Names of the systems whose configuration is of this kind."""
    families = {name for name, family in FAMILIES.items() if issubclass(family.config, config)}
    return [name for name, preset in PRESETS.items() if preset.family in families]


def resolve(settings: ModelSettings, **sizes: Any) -> SequenceConfig:
    """A translator's configuration; sizes: n_source_vocab, n_target_vocab and shared_vocab."""
    return cast("SequenceConfig", resolve_for("translation", SequenceConfig, settings, **sizes))


def resolve_for(
    task: str, wanted: type[ModelConfig], settings: ModelSettings, **sizes: Any
) -> ModelConfig:
    """Preset, size and what the user set, as one complete configuration of the kind ``wanted``.

    ``sizes`` are those that the data decides, such as that of the vocabulary.
    """
    preset = PRESETS[settings.preset]
    family, fitting = FAMILIES[preset.family], presets_for(wanted)
    if settings.preset not in fitting:
        raise ConfigError(
            f"preset {settings.preset!r} cannot be trained for {task}; for that choose one of "
            f"{', '.join(fitting)}"
        )
    size = settings.size or next(iter(preset.sizes))
    given = settings.given()
    config = parse(family.config, {**sizes, **preset.sizes[size], **given}, "model")
    check_names(config)
    if idle := [name for name in config.idle if name in given]:
        raise ConfigError(f"model: {', '.join(idle)} would do nothing in this model; leave it out")
    return config


def check_names(config: ModelConfig) -> None:
    """Refuse names that no registry has; a plug-in's must have been entered by now."""
    for key, registry in NAMES.items():
        if isinstance(name := getattr(config, key, None), str):
            registry[name]
    for name in getattr(config, "windows", None) or ():
        WINDOWS[name]


def config_from(raw: Mapping[str, Any]) -> ModelConfig:
    """A configuration read back from a run folder."""
    family = raw.get("family") if isinstance(raw, Mapping) else None
    if not isinstance(family, str):
        raise ConfigError("a model configuration must name its family")
    config = parse(FAMILIES[family].config, raw, "model")
    check_names(config)
    return config


@overload
def build(config: SequenceConfig) -> SequenceModel: ...


@overload
def build(config: ModelConfig) -> nn.Module: ...


def build(config: ModelConfig) -> nn.Module:
    """A fresh model; its weights come from torch's default generator."""
    return FAMILIES[config.family].model(config)


def n_parameters(model: nn.Module) -> int:
    """Numbers that are learned, tied ones counted once."""
    return sum(parameter.numel() for parameter in model.parameters())
