"""Encoders from and to BERT folders in the layout of Hugging Face.

``BertModel`` alone or with a head for labels, masked words or spans; names may begin with
``bert.`` or not. What is read computes what BERT computes, to float32's rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from regard.core.errors import CheckpointError, ConfigError
from regard.core.settings import parse
from regard.functional.positions import sinusoid
from regard.interop import folders, naming
from regard.interop.naming import Imported, Names
from regard.models.encoder import POOLINGS
from regard.models.settings import EncoderConfig

TABLES: tuple[Names, ...] = (
    ("embeddings.word_embeddings.weight", "embedding.tokens.weight"),
    ("embeddings.position_embeddings.weight", naming.POSITIONS),
    ("embeddings.token_type_embeddings.weight", "embedding.segments.weight"),
)
LAYER: tuple[Names, ...] = (
    ("attention.self.query", "self_attention.to_q"),
    ("attention.self.key", "self_attention.to_k"),
    ("attention.self.value", "self_attention.to_v"),
    ("attention.output.dense", "self_attention.to_out"),
    ("attention.output.LayerNorm", "around_self.norm"),
    ("intermediate.dense", "feed_forward.inner"),
    ("output.dense", "feed_forward.outer"),
    ("output.LayerNorm", "around_feed_forward.norm"),
)
HEADS: dict[str, tuple[Names, ...]] = {
    "none": (),
    "classify": (("pooler.dense", "head.dense"), ("classifier", "head.to_labels")),
    "masked": (
        ("cls.predictions.transform.dense", "head.dense"),
        ("cls.predictions.transform.LayerNorm", "head.norm"),
    ),
    "spans": (("qa_outputs", "head.to_ends"),),
}
MASKED_BIAS: Names = ("cls.predictions.bias", "head.bias")  # a tensor, not a layer

ARCHITECTURES = {
    "none": "BertModel",
    "classify": "BertForSequenceClassification",
    "masked": "BertForMaskedLM",
    "spans": "BertForQuestionAnswering",
}
"""Our heads, and the classes of ``transformers``."""

NAME = "BERT"

FIELDS: dict[str, tuple[str, Any]] = {
    "vocab_size": ("n_vocab", 30522),
    "hidden_size": ("d_model", 768),
    "num_hidden_layers": ("n_layers", 12),
    "num_attention_heads": ("n_heads", 12),
    "intermediate_size": ("d_ff", 3072),
    "hidden_dropout_prob": ("dropout", 0.1),
    "max_position_embeddings": ("max_len", 512),
    "type_vocab_size": ("n_segments", 2),
    "layer_norm_eps": ("eps", 1e-12),
    "pad_token_id": ("pad_id", 0),
}
"""Settings of BERT: our name, and the default."""

READABLE = {**{x: head for head, x in ARCHITECTURES.items()}, "BertForPreTraining": "masked"}
"""Classes of ``transformers``, and the head that is read of them."""

_SUPPORTED: dict[str, tuple[Any, ...]] = {
    "model_type": ("bert",),
    "hidden_act": tuple(folders.ACTIVATIONS),
    "position_embedding_type": ("absolute",),
    "is_decoder": (False,),
    "add_cross_attention": (False,),
    "pruned_heads": ({}, None),
    "quantization_config": (None,),
}
"""Their settings of which we have a counterpart for these values only."""

_OF_HEADS = {"cls.": "masked", "classifier.": "classify", "qa_outputs.": "spans"}
"""How the names of a head's tensors begin, which have no prefix."""

_UNREAD = {"classify": (), "masked": ("pooler.", "cls.seq_relationship.")}
"""By head: what BERT was trained with and the head does not read; of others, the pooler."""

BUFFERS = ("embeddings.position_ids",)  # numbers from 0 on, which old folders keep

COPIES = (
    ("cls.predictions.decoder.weight", "embeddings.word_embeddings.weight"),
    ("cls.predictions.decoder.bias", "cls.predictions.bias"),
)
"""What the masked head may have twice, and where it is read from."""

MODULES, READING = "modules.json", "sentence_bert_config.json"
MEAN = "pooling_mode_mean_tokens"
STEPS = ("Transformer", "Pooling", "Normalize")
"""Of sentence encoders. Vectors of length 1 are what ``embed`` gives anyway."""


def rows(config: EncoderConfig) -> Iterator[Names]:
    """The whole table for one encoder, tensor by tensor."""
    yield from TABLES
    if config.head == "masked":
        yield MASKED_BIAS
    layers = (("embeddings.LayerNorm", "embedding.norm"), *HEADS[config.head])
    yield from naming.parts(layers, naming.WEIGHT_AND_BIAS)
    for i in range(config.n_layers):
        theirs, ours = f"encoder.layer.{i}.", f"layers.{i}."
        yield from naming.parts(LAYER, naming.WEIGHT_AND_BIAS, theirs, ours)


def config_of(raw: Mapping[str, Any], names: Iterable[str], path: Path) -> EncoderConfig:
    """Ours for config.json at ``path``; where it names no class, the tensors' names tell."""
    head = _head(raw, names)
    problems = naming.unsupported(raw, _SUPPORTED)
    if raw.get("type_vocab_size", 2) == 0:
        problems.append("type_vocab_size=0 (supported: 1 or more)")
    if raw.get("pad_token_id", 0) is None:
        problems.append("pad_token_id=None (supported: the id of the padding token)")
    if head is None:
        known = ", ".join(READABLE)
        problems.append(f"architectures={raw['architectures']!r} (supported: one of {known})")
    if problems:
        raise CheckpointError(f"{path} describes no encoder that we have: {'; '.join(problems)}")
    ours = {ours: raw.get(theirs, default) for theirs, (ours, default) in FIELDS.items()}
    ours |= {"head": head, "activation": folders.ACTIVATIONS[raw.get("hidden_act", "gelu")]}
    if head == "classify":  # labels with names are counted; of others there is a number, or two
        named = raw.get("id2label")
        n_named = len(named) if isinstance(named, dict) else 0
        ours["n_labels"] = n_named or raw.get("num_labels", 2)
    try:
        return parse(EncoderConfig, ours, "")
    except ConfigError as error:
        raise CheckpointError(f"{path} describes no encoder, in our words: {error}") from None


def _head(raw: Mapping[str, Any], names: Iterable[str]) -> str | None:
    found = raw.get("architectures")
    if found:
        only = isinstance(found, list) and len(found) == 1 and isinstance(found[0], str)
        return READABLE.get(found[0]) if only else None
    present = {_OF_HEADS[start] for name in names for start in _OF_HEADS if name.startswith(start)}
    return min(present, default="none")  # of several, the tensors of the others are told as unused


def refusal(config: EncoderConfig) -> str | None:
    """Why an encoder cannot be written as BERT, or None where it can."""
    known = {
        "norm_first": (False,),
        "norm": ("layer",),
        "n_kv_heads": (None, config.n_heads),
        "embedding_norm": (True,),
        "activation": tuple(folders.ACTIVATIONS.values()),
        "positions": ("learned", "sinusoidal", "none"),
        "pooling": ("cls",) if config.head == "classify" else tuple(POOLINGS),
        "cell": (None,),
    }
    return naming.no_counterpart(config, known, NAME)


def described(config: EncoderConfig) -> dict[str, Any]:
    """What config.json shall say."""
    found: dict[str, Any] = {"architectures": [ARCHITECTURES[config.head]], "model_type": "bert"}
    found |= {theirs: getattr(config, ours) for theirs, (ours, _) in FIELDS.items()}
    found |= {"type_vocab_size": max(1, config.n_segments), "attention_probs_dropout_prob": 0.0}
    found["hidden_act"] = folders.THEIR_ACTIVATIONS.get(config.activation, config.activation)
    if config.n_labels is not None:
        names = [f"LABEL_{i}" for i in range(config.n_labels)]
        found["id2label"] = dict(enumerate(names))
        found["label2id"] = {name: i for i, name in enumerate(names)}
    return found


def read_bert(folder: Path) -> Imported:
    """The encoder of a folder with config.json and weights."""
    raw = folders.read_config(folder)
    tensors = _plain(folders.read_tensors(folder), folder)
    config = config_of(raw, tensors, folder / folders.CONFIG)
    if config.head == "masked":
        tensors = _without_copies(tensors, folder)
    aside = [name for name in tensors if name.startswith(_UNREAD.get(config.head, ("pooler.",)))]
    weights = naming.fitted(config, rows(config), tensors, str(folder), (*BUFFERS, *aside))
    notes = [f"left aside, for no head here reads it: {', '.join(aside)}"] if aside else []
    shares = {"attention_probs_dropout_prob": raw.get("attention_probs_dropout_prob", 0.1)}
    if config.head == "classify" and raw.get("classifier_dropout") != config.dropout:
        shares["classifier_dropout"] = raw.get("classifier_dropout")
    notes += [
        f"{field}={share} has no counterpart; it matters in training only"
        for field, share in shares.items()
        if share
    ]
    return Imported(config, weights, tuple(notes))


def _plain(tensors: Mapping[str, Tensor], folder: Path) -> dict[str, Tensor]:
    """Without the prefix; the norms of old folders call their tensors gamma and beta."""
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        plain = name.removeprefix("bert.")
        for old, new in ((".gamma", ".weight"), (".beta", ".bias")):
            if plain.endswith(f"LayerNorm{old}"):
                plain = plain.removesuffix(old) + new
        if plain in found:
            raise CheckpointError(f"{folder} holds {plain} twice, once as {name}; keep one of them")
        found[plain] = tensor
    return found


def _without_copies(tensors: Mapping[str, Tensor], folder: Path) -> dict[str, Tensor]:
    """Masked words are written by the token matrix: a copy is dropped, anything else refused."""
    left = dict(tensors)
    for copy, original in COPIES:
        tensor = left.pop(copy, None)
        if tensor is not None and not torch.equal(left.setdefault(original, tensor), tensor):
            raise CheckpointError(
                f"{folder}: {copy} differs from {original}; a masked head whose output is not "
                "tied to the embedding has no counterpart here"
            )
    return left


def write_bert(config: EncoderConfig, weights: Mapping[str, Tensor], folder: Path) -> None:
    """Write config.json and model.safetensors; the weights are those of ``named_parameters``.

    What BERT has and the model lacks is written so that it changes nothing: biases and segments of
    zero, and a table of sinusoids or of zeros, which ends at ``max_len``. There is no pooler where
    there are no labels, and ``transformers`` makes up one when asked for it.
    """
    naming.check_exportable(refusal(config))
    more = {"bias": True, "positions": "learned", "n_segments": max(1, config.n_segments)}
    complete = {**weights, **naming.zeros_beyond(config, config.model_copy(update=more))}
    if config.positions == "sinusoidal":
        table = sinusoid(torch.arange(config.max_len), config.d_model)
        complete[naming.POSITIONS] = table / math.sqrt(config.d_model)
    found = naming.renamed(rows(config), complete, NAME)
    if config.head != "none":
        heads = tuple(_OF_HEADS)
        found = {x if x.startswith(heads) else f"bert.{x}": found[x] for x in found}
    folders.write_hf(folder, described(config), found)


# Sentence encoders: a folder of ``sentence_transformers`` says beside its BERT how the vectors of
# tokens become one (modules.json, 1_Pooling), and how much of a text is read.


def check_pooling(folder: Path) -> None:
    """Our vectors are means of tokens: whatever was trained to be used otherwise is refused."""
    problems: list[str] = []
    if (path := folder / MODULES).exists():
        steps = folders.read_json(path, list)
        if not all(isinstance(one, dict) for one in steps):
            raise CheckpointError(f"{path} must hold a list of objects")
        kinds = [str(one.get("type")).rpartition(".")[2] for one in steps]
        problems += [f"{MODULES} has a {kind}" for kind in kinds if kind not in STEPS]
    if (path := folder / "1_Pooling" / folders.CONFIG).exists():
        problems += _other_pooling(folders.read_json(path))
    if problems:
        raise CheckpointError(
            f"{folder} makes the vector of a text in a way that Regard has no counterpart of: "
            f"{'; '.join(problems)} (supported: the mean of its tokens, {MEAN}=true alone)"
        )


def _other_pooling(said: dict[str, Any]) -> list[str]:
    modes = {name: on for name, on in said.items() if name.startswith("pooling_mode_")}
    problems = [f"{name}=true" for name, on in modes.items() if on and name != MEAN]
    if not problems and not modes.get(MEAN, True):
        problems.append(f"{MEAN}=false")
    if said.get("pooling_mode", "mean") != "mean":
        problems.append(f"pooling_mode={said['pooling_mode']!r}")
    return problems


def max_tokens(folder: Path) -> int | None:
    """How many tokens of a text such a folder reads, where it says so."""
    path = folder / READING
    found = folders.read_json(path).get("max_seq_length") if path.exists() else None
    if found is not None and (type(found) is not int or found < 1):
        raise CheckpointError(f"{path} must say max_seq_length as a number from 1, found {found!r}")
    return found
