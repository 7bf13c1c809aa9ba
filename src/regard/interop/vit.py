"""Vision Transformers from and to the folders of others.

``ViTForImageClassification`` of Hugging Face in both directions; the names of ``timm``, whose
folders say ``architecture``; and state dicts in the names of ``vit-pytorch``, as one .pt file.
What is read computes what they compute, to float32's rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.core.errors import CheckpointError, ConfigError
from regard.core.settings import parse
from regard.data.settings import DataSettings
from regard.interop import folders, naming, preprocessing
from regard.interop.naming import Imported, Names
from regard.interop.preprocessing import vit_preparation
from regard.models.vision import CHANNELS, VisionConfig

NAME = "ViT"
LAYER: tuple[Names, ...] = (
    ("layernorm_before", "around_self.norm"),
    ("attention.attention.query", "self_attention.to_q"),
    ("attention.attention.key", "self_attention.to_k"),
    ("attention.attention.value", "self_attention.to_v"),
    ("attention.output.dense", "self_attention.to_out"),
    ("layernorm_after", "around_feed_forward.norm"),
    ("intermediate.dense", "feed_forward.inner"),
    ("output.dense", "feed_forward.outer"),
)
ENDS: tuple[Names, ...] = (
    ("vit.embeddings.patch_embeddings.projection", "encoder.embedding.project"),
    ("vit.layernorm", "encoder.norm"),
    ("classifier", "to_labels"),
)
CLASS_TOKEN: Names = ("vit.embeddings.cls_token", "encoder.embedding.class_token")
POSITIONS: Names = ("vit.embeddings.position_embeddings", "encoder.embedding.positions.table")

FIELDS: dict[str, tuple[str, Any]] = {
    "hidden_size": ("d_model", 768),
    "num_hidden_layers": ("n_layers", 12),
    "num_attention_heads": ("n_heads", 12),
    "intermediate_size": ("d_ff", 3072),
    "hidden_dropout_prob": ("dropout", 0.0),
    "layer_norm_eps": ("eps", 1e-12),
    "image_size": ("image_size", 224),
    "patch_size": ("patch_size", 16),
}
"""Settings of Hugging Face's ViT: our name, and the default."""
_SUPPORTED: dict[str, tuple[Any, ...]] = {
    "architectures": (["ViTForImageClassification"],),
    "hidden_act": tuple(folders.ACTIVATIONS),
    "num_channels": (CHANNELS,),
    "qkv_bias": (True,),
    "quantization_config": (None,),
}

TIMM: tuple[tuple[str, str], ...] = (
    ("cls_token", "vit.embeddings.cls_token"),
    ("pos_embed", "vit.embeddings.position_embeddings"),
    ("patch_embed.proj.", "vit.embeddings.patch_embeddings.projection."),
    ("blocks.", "vit.encoder.layer."),
    ("fc_norm.", "vit.layernorm."),
    ("norm.", "vit.layernorm."),
    ("head.", "classifier."),
    (".norm1.", ".layernorm_before."),
    (".norm2.", ".layernorm_after."),
    (".attn.qkv.", ".attention.attention.qkv."),
    (".attn.proj.", ".attention.output.dense."),
    (".mlp.fc1.", ".intermediate.dense."),
    (".mlp.fc2.", ".output.dense."),
)
"""Parts of timm's names, and of Hugging Face's; those with a dot in front stand inside a name."""
VIT_PYTORCH: tuple[tuple[str, str], ...] = (
    ("cls_token", "vit.embeddings.cls_token"),
    ("pos_embedding", "vit.embeddings.position_embeddings"),
    ("to_patch_embedding.1.", "vit.embeddings.patch_embeddings.projection."),
    ("transformer.layers.", "vit.encoder.layer."),
    ("mlp_head.0.", "vit.layernorm."),
    ("mlp_head.1.", "classifier."),
    (".0.norm.", ".layernorm_before."),
    (".0.fn.to_qkv.", ".attention.attention.qkv."),
    (".0.fn.to_out.0.", ".attention.output.dense."),
    (".1.norm.", ".layernorm_after."),
    (".1.fn.net.0.", ".intermediate.dense."),
    (".1.fn.net.3.", ".output.dense."),
)
MNIST_MEAN, MNIST_STD = 0.1307, 0.3081
"""Of the grey of digits, with which the models of one channel are trained."""
HEAD = 64
"""Width of a head of timm's and of vit-pytorch's, which their files do not say."""


def rows(config: VisionConfig) -> Iterator[Names]:
    """The whole table, tensor by tensor."""
    if config.pooling == "cls":
        yield CLASS_TOKEN
    yield POSITIONS
    yield from naming.parts(ENDS, naming.WEIGHT_AND_BIAS)
    for i in range(config.n_layers):
        theirs, ours = f"vit.encoder.layer.{i}.", f"encoder.layers.{i}."
        yield from naming.parts(LAYER, naming.WEIGHT_AND_BIAS, theirs, ours)


def read_vit(folder: Path) -> Imported:
    """The model of a folder of Hugging Face, with how its pixels are prepared."""
    raw = folders.read_config(folder)
    problems = naming.unsupported(raw, _SUPPORTED)
    if problems:
        raise CheckpointError(
            f"{folder / folders.CONFIG} describes no {NAME} that we have: {'; '.join(problems)}"
        )
    ours = {ours: raw.get(theirs, default) for theirs, (ours, default) in FIELDS.items()}
    ours |= {"activation": folders.ACTIVATIONS[raw.get("hidden_act", "gelu")]}
    ours |= {"n_labels": len(raw.get("id2label") or ()) or raw.get("num_labels", 2)}
    prepared = vit_preparation(folder, ours["image_size"])
    found = _imported({**ours, **prepared.pixels}, folders.read_tensors(folder), folder)
    return replace(found, notes=prepared.notes, data=prepared.data)


def read_timm(folder: Path) -> Imported:
    """A folder of timm: config.json with ``architecture`` and ``pretrained_cfg``, and weights."""
    raw = folders.read_config(folder)
    named, said = str(raw.get("architecture")), raw.get("pretrained_cfg") or {}
    if not named.startswith("vit_") or "distilled" in named:
        raise CheckpointError(f"{folder} is timm's {named!r}; supported are its plain vit_ models")
    tensors = plain_names(folders.read_tensors(folder), TIMM)
    ours = sizes_of(tensors, folder)
    args = raw.get("model_args") or {}
    ours |= {"n_heads": args.get("num_heads", max(1, ours["d_model"] // HEAD))}
    ours |= {"eps": 1e-6, "activation": "gelu"}
    ours |= {
        key: tuple(said[name])
        for name, key in (("mean", "pixel_mean"), ("std", "pixel_std"))
        if name in said
    }
    return _imported(ours, tensors, folder)


def read_vit_pytorch(path: Path) -> Imported:
    """A state dict in vit-pytorch's names; its heads are 64 wide, and have no biases."""
    tensors = plain_names(folders.read_state_dict(path), VIT_PYTORCH)
    ours = sizes_of(tensors, path)
    inner = tensors["vit.encoder.layer.0.attention.output.dense.weight"].shape[1]
    ours |= {"n_heads": inner // HEAD, "d_head": HEAD, "eps": 1e-5, "activation": "relu"}
    projection = "vit.embeddings.patch_embeddings.projection.weight"
    if tensors[projection].shape[1] == ours["patch_size"] ** 2:  # one channel: a third of each
        tensors[projection] = tensors[projection].repeat(1, CHANNELS) / CHANNELS
        ours |= {"pixel_mean": (MNIST_MEAN,) * CHANNELS, "pixel_std": (MNIST_STD,) * CHANNELS}
    note = "the file does not say what stands between the layers of a feed-forward: ReLU is taken"
    return replace(_imported(ours, tensors, path), notes=(note,))


def plain_names(
    tensors: Mapping[str, Tensor], names: tuple[tuple[str, str], ...]
) -> dict[str, Tensor]:
    """Tensors under Hugging Face's names; q, k and v of one product apart."""
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        for theirs, plain in names:
            if theirs.startswith("."):
                name = name.replace(theirs, plain, 1)
            elif name.startswith(theirs):
                name = plain + name.removeprefix(theirs)
        if ".qkv." in name:
            for part, one in zip(("query", "key", "value"), tensor.chunk(3), strict=True):
                found[name.replace("qkv", part)] = one
        else:
            found[name] = tensor
    for name in [name for name in found if name.endswith(".query.weight")]:
        for part in ("query", "key", "value"):
            bias = name.replace("query.weight", f"{part}.bias")
            found.setdefault(bias, found[name].new_zeros(len(found[name])))
    return found


def sizes_of(tensors: Mapping[str, Tensor], where: Path) -> dict[str, Any]:
    """What the shapes of a state dict say."""
    try:
        table = tensors["vit.embeddings.position_embeddings"]
        projection = tensors["vit.embeddings.patch_embeddings.projection.weight"]
        inner = tensors["vit.encoder.layer.0.intermediate.dense.weight"]
        labels = tensors["classifier.weight"]
    except KeyError as error:
        raise CheckpointError(f"{where} is not a {NAME}: it has no {error.args[0]}") from None
    has_class = "vit.embeddings.cls_token" in tensors
    side = round((table.shape[1] - has_class) ** 0.5)
    if projection.ndim == 4:
        patch = projection.shape[-1]
    else:
        colours = next(c for c in (CHANNELS, 1) if _is_square(projection.shape[1] / c))
        patch = round((projection.shape[1] // colours) ** 0.5)
    layers = {name.split(".")[3] for name in tensors if name.startswith("vit.encoder.layer.")}
    return {
        "d_model": len(projection),
        "n_layers": len(layers),
        "d_ff": len(inner),
        "n_labels": len(labels),
        "patch_size": patch,
        "image_size": side * patch,
        "pooling": "cls" if has_class else "mean",
        "dropout": 0.0,
    }


def _is_square(x: float) -> bool:
    return round(x**0.5) ** 2 == x


def _imported(ours: Mapping[str, Any], tensors: Mapping[str, Tensor], where: Path) -> Imported:
    try:
        config = parse(VisionConfig, {"positions": "learned", **ours}, "")
    except ConfigError as error:
        raise CheckpointError(f"{where} describes no {NAME}, in our words: {error}") from None
    flat = {name: _flat(name, tensor) for name, tensor in tensors.items()}
    return Imported(config, naming.fitted(config, rows(config), flat, str(where)))


def _flat(name: str, tensor: Tensor) -> Tensor:
    """Without an axis of length 1, and the pixels of a patch in a row, channel by channel."""
    if name == CLASS_TOKEN[0]:
        return tensor.flatten()
    if name == POSITIONS[0]:
        return tensor.flatten(0, 1)
    return tensor.flatten(1) if tensor.ndim == 4 else tensor


def write_vit(
    config: VisionConfig,
    weights: Mapping[str, Tensor],
    folder: Path,
    labels: tuple[str, ...],
    data: DataSettings,
) -> None:
    """A folder that ``transformers`` reads, with how pixels are to be prepared."""
    known = {
        "encoder": ("patches",),
        "pooling": ("cls",),
        "norm_first": (True,),
        "norm": ("layer",),
        "n_kv_heads": (None, config.n_heads),
        "activation": tuple(folders.ACTIVATIONS.values()),
        "positions": ("learned",),
    }
    naming.check_exportable(naming.no_counterpart(config, known, f"Hugging Face's {NAME}"))
    full = config.model_copy(update={"bias": True})
    complete = {**weights, **naming.zeros_beyond(config, full)}
    found = naming.renamed(rows(config), complete, NAME)
    size = config.patch_size
    found[CLASS_TOKEN[0]] = found[CLASS_TOKEN[0]].view(1, 1, -1)
    found[POSITIONS[0]] = found[POSITIONS[0]].unsqueeze(0)
    projection = f"{ENDS[0][0]}.weight"
    found[projection] = found[projection].view(-1, CHANNELS, size, size)
    tensors = {name: x.contiguous() for name, x in found.items()}
    folders.write_hf(folder, described(config, labels), tensors)
    write_preparation(config, folder, data)


def described(config: VisionConfig, labels: tuple[str, ...]) -> dict[str, Any]:
    """What config.json shall say."""
    return {
        "architectures": ["ViTForImageClassification"],
        "model_type": "vit",
        **{theirs: getattr(config, ours) for theirs, (ours, _) in FIELDS.items()},
        "hidden_act": folders.THEIR_ACTIVATIONS.get(config.activation, config.activation),
        "attention_probs_dropout_prob": 0.0,
        "num_channels": CHANNELS,
        "qkv_bias": True,
        "id2label": dict(enumerate(labels)),
        "label2id": {name: i for i, name in enumerate(labels)},
    }


def write_preparation(config: VisionConfig, folder: Path, data: DataSettings) -> None:
    """preprocessor_config.json: how pixels are to be prepared."""
    path = folder / preprocessing.FILE
    folders.write_json(path, preprocessing.written("ViTImageProcessor", config, data))
