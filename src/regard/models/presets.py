"""Every system by its name, in its sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, overload

from torch import nn

from regard.core.errors import ConfigError
from regard.core.registry import Registry, did_you_mean
from regard.core.settings import parse
from regard.models.base import ModelConfig, SequenceConfig, SequenceModel
from regard.models.decoder import DecoderConfig, LanguageModel
from regard.models.encoder import Encoder, EncoderConfig
from regard.models.memory_network import MemoryNetwork, MemoryNetworkConfig
from regard.models.recurrent import RecurrentConfig, RecurrentTranslator
from regard.models.settings import ModelSettings
from regard.models.transformer import Transformer, TransformerConfig


@dataclass(frozen=True, slots=True)
class Family:
    """A file of ``models/``: what describes its models, and what builds them."""

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
FAMILIES.add("encoder")(Family(EncoderConfig, Encoder))
FAMILIES.add("decoder")(Family(DecoderConfig, LanguageModel))

PRESETS: Registry[Preset] = Registry("model preset")
PRESETS.add("transformer")(
    Preset(
        "transformer",
        "Encoder-decoder Transformer (Vaswani et al. 2017)",
        {
            "tiny": {"d_model": 128, "n_layers": 2, "n_heads": 4, "d_ff": 512},
            "small": {"d_model": 256, "n_layers": 3, "n_heads": 4, "d_ff": 1024},
            "base": {"d_model": 512, "n_layers": 6, "n_heads": 8, "d_ff": 2048},
            "big": {
                "d_model": 1024,
                "n_layers": 6,
                "n_heads": 16,
                "d_ff": 4096,
                "dropout": 0.3,
            },
        },
    )
)


def _recurrent(summary: str, family: str = "recurrent", **system: Any) -> Preset:
    widths = {"tiny": 128, "small": 256, "base": 512}
    sizes = {size: {"d_model": width, **system} for size, width in widths.items()}
    return Preset(family, summary, sizes)


PRESETS.add("sutskever2014")(
    _recurrent(
        "LSTM to one vector to LSTM, no attention (Sutskever et al. 2014)",
        decoder="plain",
        n_layers=2,
        reverse_source=True,
    )
)
PRESETS.add("cs224n2019")(
    _recurrent("LSTM decoder with dot products, [a; s] (CS224N 2019)", decoder="plain", score="dot")
)
PRESETS.add("bahdanau2015")(
    _recurrent(
        "Bidirectional GRU, additive score, context inside the GRU (Bahdanau et al. 2015)",
        decoder="bahdanau",
        cell="gru",
        bidirectional=True,
        score="additive",
    )
)
PRESETS.add("luong2015")(
    _recurrent(
        "Stacked LSTM, attentional state, input feeding; any score and window (Luong et al. 2015)",
        decoder="luong",
        n_layers=2,
        score="general",
        input_feeding=True,
    )
)
PRESETS.add("graves2014")(
    _recurrent(
        "Luong's decoder with the content score β·cos (Graves et al. 2014)",
        decoder="luong",
        n_layers=2,
        score="content",
        beta="emitted",
        input_feeding=True,
    )
)

PRESETS.add("cheng2016")(
    _recurrent(
        "LSTMs with self-attention to all their states, deep or shallow fusion (Cheng et al. 2016)",
        family="memory_network",
    )
)


PRESETS.add("bert")(
    Preset(
        "encoder",
        "Encoder alone, to classify, compare, fill in and find (Devlin et al. 2019)",
        {
            "tiny": {"d_model": 128, "n_layers": 2, "n_heads": 2, "d_ff": 512},
            "mini": {"d_model": 256, "n_layers": 4, "n_heads": 4, "d_ff": 1024},
            "small": {"d_model": 512, "n_layers": 4, "n_heads": 8, "d_ff": 2048},
            "base": {"d_model": 768, "n_layers": 12, "n_heads": 12, "d_ff": 3072},
        },
    )
)
PRESETS.add("bilstm")(
    _recurrent(
        "LSTM both ways, then attention with a learned query, to classify (Yang et al. 2016)",
        family="encoder",
        n_layers=1,
        cell="lstm",
        pooling="attention",
        positions="none",
    )
)
PRESETS.add("gpt")(
    Preset(
        "decoder",
        "Decoder alone, to write on (Radford et al. 2018)",
        {
            "tiny": {"d_model": 128, "n_layers": 4, "n_heads": 4, "d_ff": 512},
            "small": {"d_model": 384, "n_layers": 6, "n_heads": 6, "d_ff": 1536},
            "base": {"d_model": 768, "n_layers": 12, "n_heads": 12, "d_ff": 3072},
        },
    )
)


def presets_for(config: type[ModelConfig]) -> list[str]:
    """Names of the systems whose configuration is of this kind."""
    families = {name for name, family in FAMILIES.items() if issubclass(family.config, config)}
    return [name for name, preset in PRESETS.items() if preset.family in families]


def resolve(
    settings: ModelSettings, *, n_source_vocab: int, n_target_vocab: int, shared_vocab: bool
) -> SequenceConfig:
    """The complete configuration of a translator."""
    config = resolve_for(
        "translation",
        SequenceConfig,
        settings,
        n_source_vocab=n_source_vocab,
        n_target_vocab=n_target_vocab,
        shared_vocab=shared_vocab,
    )
    assert isinstance(config, SequenceConfig), "every translator has two vocabularies"
    return config


def resolve_for(
    task: str, wanted: type[ModelConfig], settings: ModelSettings, **sizes: Any
) -> ModelConfig:
    """Preset, size and what the user set, as one complete configuration.

    It is of the kind that the task ``wanted``. ``sizes`` are those that the data decides, such as
    that of the vocabulary.
    """
    preset = PRESETS[settings.preset]
    fitting = presets_for(wanted)
    if settings.preset not in fitting:
        raise ConfigError(
            f"preset {settings.preset!r} cannot be trained for {task}; for that choose one of "
            f"{', '.join(fitting)}"
        )
    size = settings.size or next(iter(preset.sizes))
    if size not in preset.sizes:
        raise ConfigError(
            f"preset {settings.preset!r} has no size {size!r}{did_you_mean(size, preset.sizes)}; "
            f"known: {', '.join(preset.sizes)}"
        )
    given = settings.given()
    raw = {**sizes, **preset.sizes[size], **given}
    config = parse(FAMILIES[preset.family].config, raw, "model")
    if idle := [name for name in config.idle if name in given]:
        raise ConfigError(f"model: {', '.join(idle)} would do nothing in this model; leave it out")
    return config


def config_from(raw: Mapping[str, Any]) -> ModelConfig:
    """A configuration read back from a run folder."""
    family = raw.get("family") if isinstance(raw, Mapping) else None
    if not isinstance(family, str):
        raise ConfigError("a model configuration must name its family")
    return parse(FAMILIES[family].config, raw, "model")


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
