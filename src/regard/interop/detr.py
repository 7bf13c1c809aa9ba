"""Detectors from and to ``DetrForObjectDetection`` folders of Hugging Face.

The backbone is a ResNet, in the names of Hugging Face (``embedder``, ``encoder.stages``) or of timm
(``conv1``, ``layer1``), as published folders have it. What is read computes what they compute, to
float32's rounding.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from regard.core.errors import CheckpointError, ConfigError
from regard.core.settings import parse
from regard.data.settings import DataSettings
from regard.interop import folders, naming, preprocessing
from regard.interop.naming import Imported, Names
from regard.models.detection import DetectionConfig
from regard.models.vision import CHANNELS

NAME = "Hugging Face's DETR"
ARCHITECTURE = "DetrForObjectDetection"
BACKBONE = "model.backbone.conv_encoder.model."
ATTENTION: tuple[tuple[str, str], ...] = (
    ("q_proj", "to_q"),
    ("k_proj", "to_k"),
    ("v_proj", "to_v"),
    ("out_proj", "to_out"),
)
ENCODER_LAYER: tuple[Names, ...] = (
    *((f"self_attn.{a}", f"self_attention.{b}") for a, b in ATTENTION),
    ("self_attn_layer_norm", "around_self.norm"),
    ("fc1", "feed_forward.inner"),
    ("fc2", "feed_forward.outer"),
    ("final_layer_norm", "around_feed_forward.norm"),
)
DECODER_LAYER: tuple[Names, ...] = (
    *ENCODER_LAYER,
    *((f"encoder_attn.{a}", f"cross_attention.{b}") for a, b in ATTENTION),
    ("encoder_attn_layer_norm", "around_cross.norm"),
)
PROJECTION: Names = ("model.input_projection", "encoder.cells.embedding.project")
ENDS: tuple[Names, ...] = (
    PROJECTION,
    ("model.decoder.layernorm", "decoder.norm"),
    ("class_labels_classifier", "decoder.to_classes"),
    *((f"bbox_predictor.layers.{i}", f"decoder.to_boxes.{2 * i}") for i in range(3)),
)
QUERIES: Names = ("model.query_position_embeddings.weight", "decoder.queries")
NORM = {name: name for name in ("weight", "bias", "running_mean", "running_var")}
"""The tensors of a batch norm, all of them constants."""

NEWER: tuple[tuple[str, str], ...] = (
    (r"^model\.backbone\.model\.", BACKBONE),
    (r"\.o_proj\.", ".out_proj."),
    (r"\.mlp\.(fc[12])\.", r".\1."),
)
"""Names that modules have since transformers 5, whose files may have them too."""
TIMM: tuple[tuple[str, str], ...] = (
    (r"^conv1\.", "embedder.embedder.convolution."),
    (r"^bn1\.", "embedder.embedder.normalization."),
    (r"\.downsample\.0\.", ".shortcut.convolution."),
    (r"\.downsample\.1\.", ".shortcut.normalization."),
    *((rf"\.conv{i + 1}\.", f".layer.{i}.convolution.") for i in range(3)),
    *((rf"\.bn{i + 1}\.", f".layer.{i}.normalization.") for i in range(3)),
    *((rf"^layer{i + 1}\.", f"encoder.stages.{i}.layers.") for i in range(4)),
)
"""Of timm's backbones: what stands for it in Hugging Face's ResNet."""
COUNTER = "num_batches_tracked"

FIELDS: dict[str, tuple[str, Any]] = {
    "d_model": ("d_model", 256),
    "encoder_layers": ("n_layers", 6),
    "encoder_attention_heads": ("n_heads", 8),
    "encoder_ffn_dim": ("d_ff", 2048),
    "dropout": ("dropout", 0.1),
    "num_queries": ("n_queries", 100),
}
"""Settings of DETR: our name, and the default."""
RESNET: dict[str, tuple[str, Any]] = {
    "depths": ("resnet_depths", (3, 4, 6, 3)),
    "hidden_sizes": ("resnet_widths", (256, 512, 1024, 2048)),
    "embedding_size": ("resnet_stem", 64),
    "layer_type": ("resnet_block", "bottleneck"),
}
"""Of its backbone."""
_SUPPORTED: dict[str, tuple[Any, ...]] = {
    "architectures": ([ARCHITECTURE],),
    "activation_function": tuple(folders.ACTIVATIONS),
    "num_channels": (CHANNELS,),
    "position_embedding_type": ("sine",),
    "dilation": (False, None),
    "auxiliary_loss": (False,),  # with it, the norm of what is read changes what the layers read
    "quantization_config": (None,),
}
_SUPPORTED_RESNET: dict[str, tuple[Any, ...]] = {
    "model_type": ("resnet",),
    "num_channels": (CHANNELS,),
    "hidden_act": ("relu",),
    "downsample_in_first_stage": (False,),
    "downsample_in_bottleneck": (False,),
}
_SAME = {  # what encoder and decoder have in common here
    "decoder_attention_heads": "encoder_attention_heads",
    "decoder_ffn_dim": "encoder_ffn_dim",
}
TIMM_BACKBONE = re.compile(r"resnet\d+(\..*)?")
"""Plain ResNets of timm, whose sizes are told by their tensors."""


def rows(config: DetectionConfig) -> Iterator[Names]:
    """The whole table, tensor by tensor."""
    yield QUERIES
    yield from naming.parts(ENDS, naming.WEIGHT_AND_BIAS)
    stacks = {
        "encoder": (config.n_layers, ENCODER_LAYER),
        "decoder": (config.n_decoder_layers or config.n_layers, DECODER_LAYER),
    }
    for stack, (n, table) in stacks.items():
        for i in range(n):
            theirs, ours = f"model.{stack}.layers.{i}.", f"{stack}.layers.{i}."
            yield from naming.parts(table, naming.WEIGHT_AND_BIAS, theirs, ours)
    for theirs, ours in _convolutions(config):
        theirs, ours = f"{BACKBONE}{theirs}", f"encoder.cells.conv.{ours}"
        yield f"{theirs}.convolution.weight", f"{ours}.conv.weight"
        yield from naming.parts([("normalization", "norm")], NORM, f"{theirs}.", f"{ours}.")


def _convolutions(config: DetectionConfig) -> Iterator[tuple[str, str]]:
    """Each convolution of the ResNet that has a norm: their name, and ours."""
    yield "embedder.embedder", "stem"
    n_inner = 2 if config.resnet_block == "basic" else 3
    before = config.resnet_stem
    for i, (depth, width) in enumerate(
        zip(config.resnet_depths, config.resnet_widths, strict=True)
    ):
        for k in range(depth):
            theirs, ours = f"encoder.stages.{i}.layers.{k}", f"stages.{i}.{k}"
            if k == 0 and (i > 0 or before != width):
                yield f"{theirs}.shortcut", f"{ours}.beside"
            for j in range(n_inner):
                yield f"{theirs}.layer.{j}", f"{ours}.layers.{j}"
        before = width


def read_detr(folder: Path) -> Imported:
    """The model of a folder, with how its pictures are prepared."""
    raw, path = folders.read_config(folder), folder / folders.CONFIG
    tensors = plain_names(folders.read_tensors(folder))
    problems = naming.unsupported(raw, _SUPPORTED)
    problems += [
        f"{one}={raw.get(one)!r} (supported: that of {other})"
        for one, other in _SAME.items()
        if raw.get(one, FIELDS[other][1]) != raw.get(other, FIELDS[other][1])
    ]
    backbone = _backbone(raw, tensors, problems)
    if problems:
        raise CheckpointError(f"{path} describes no DETR that we have: {'; '.join(problems)}")
    ours = {ours: raw.get(theirs, default) for theirs, (ours, default) in FIELDS.items()}
    ours |= backbone | {"encoder": "resnet", "queries": "learned", "classes": "softmax"}
    ours |= {"n_decoder_layers": raw.get("decoder_layers", 6)}
    ours |= {"activation": folders.ACTIVATIONS[raw.get("activation_function", "relu")]}
    ours |= {"n_labels": len(raw.get("id2label") or ()) or raw.get("num_labels", 2)}
    prepared = preprocessing.detr_preparation(folder)
    ours |= {**prepared.pixels, "image_size": prepared.data["image_size"]}
    try:
        config = parse(DetectionConfig, ours, "")
    except ConfigError as error:
        raise CheckpointError(f"{path} describes no DETR, in our words: {error}") from None
    n = sum(config.resnet_depths) + (config.n_decoder_layers or 0)
    if n > len(tensors):  # any number may be asked for: this many are not built
        raise CheckpointError(
            f"{folder} does not fit its own description: it says {n} blocks and layers, and holds "
            f"{len(tensors)} tensors"
        )
    weights = naming.fitted(config, rows(config), tensors, str(folder))
    notes = [
        f"{field}={share} has no counterpart; it matters in training only"
        for field in ("attention_dropout", "activation_dropout")
        if (share := raw.get(field))
    ]
    return Imported(config, weights, (*prepared.notes, *notes), prepared.data)


def plain_names(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors under the names of older files, the backbone's under those of Hugging Face.

    Batch norms' counters are left out, and the projection is a matrix.
    """
    found: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        if name.endswith(COUNTER):
            continue
        for theirs, plain in NEWER:
            name = re.sub(theirs, plain, name)
        if name.startswith(BACKBONE):
            inner = name.removeprefix(BACKBONE)
            for theirs, plain in TIMM:
                inner = re.sub(theirs, plain, inner)
            name = BACKBONE + inner
        found[name] = tensor.flatten(1) if name == f"{PROJECTION[0]}.weight" else tensor
    return found


def _backbone(
    raw: Mapping[str, Any], tensors: Mapping[str, Tensor], problems: list[str]
) -> dict[str, Any]:
    """Our settings of the ResNet; what we have none like is added to the ``problems``."""
    said = raw.get("backbone_config")
    if said is None and raw.get("use_timm_backbone", True):
        said = {"model_type": "timm_backbone", "backbone": raw.get("backbone") or "resnet50"}
    said = {"model_type": "resnet"} if said is None else said
    if not isinstance(said, dict):
        problems.append(f"backbone_config={said!r} (supported: an object)")
        return {}
    if said.get("model_type") == "timm_backbone":
        named = str(said.get("backbone"))
        if not TIMM_BACKBONE.fullmatch(named) or said.get("output_stride") not in (None, 32):
            problems.append(f"backbone={named!r} (supported: timm's resnet18, resnet50, …)")
            return {}
        return _last_stage(said, _sizes_of(tensors), problems)
    problems += [f"backbone_config.{one}" for one in naming.unsupported(said, _SUPPORTED_RESNET)]
    ours = {ours: said.get(theirs, default) for theirs, (ours, default) in RESNET.items()}
    return _last_stage(said, ours, problems)


def _last_stage(
    said: Mapping[str, Any], ours: dict[str, Any], problems: list[str]
) -> dict[str, Any]:
    """Our settings again, if it is the last stage that is read."""
    n = len(ours["resnet_depths"])
    for name, known in (("out_features", (f"stage{n}",)), ("out_indices", (n, -1))):
        if (read := said.get(name)) and read[-1] not in known:
            problems.append(f"backbone_config.{name}={read} (supported: [{known[0]!r}])")
    return ours


def _sizes_of(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The same as the shapes of a backbone's tensors tell it, in Hugging Face's names."""
    found = {
        tuple(map(int, match.groups())): len(tensor)
        for name, tensor in tensors.items()
        if (match := re.search(r"stages\.(\d+)\.layers\.(\d+)\.layer\.(\d+)\.convolution", name))
    }
    stem = tensors.get(f"{BACKBONE}embedder.embedder.convolution.weight")
    if not found or stem is None:
        raise CheckpointError(f"there is no tensor of a ResNet, such as {BACKBONE}conv1.weight")
    last = max(j for _, _, j in found)
    stages = range(1 + max(i for i, _, _ in found))
    return {
        "resnet_block": "basic" if last == 1 else "bottleneck",
        "resnet_depths": tuple(len({k for i, k, _ in found if i == stage}) for stage in stages),
        "resnet_widths": tuple(found.get((stage, 0, last), 1) for stage in stages),
        "resnet_stem": len(stem),
    }


def write_detr(
    config: DetectionConfig,
    tensors: Mapping[str, Tensor],
    folder: Path,
    labels: tuple[str, ...],
    data: DataSettings,
) -> None:
    """A folder that ``transformers`` reads; ``tensors`` are parameters and buffers."""
    naming.check_exportable(refusal(config))
    full = config.model_copy(update={"bias": True})
    complete = {**tensors, **naming.zeros_beyond(config, full)}
    found = naming.renamed(rows(config), complete, NAME)
    weight = f"{PROJECTION[0]}.weight"
    found[weight] = found[weight][..., None, None]
    folders.write_hf(folder, described(config, labels), found)
    said = preprocessing.written("DetrImageProcessor", config, data)
    folders.write_json(folder / preprocessing.FILE, {**said, "format": "coco_detection"})


def refusal(config: DetectionConfig) -> str | None:
    """Why a detector cannot be written as DETR, or None where it can."""
    known = {
        "encoder": ("resnet",),
        "queries": ("learned",),
        "n_groups": (1,),
        "classes": ("softmax",),
        "norm_first": (False,),
        "norm": ("layer",),
        "eps": (1e-5,),
        "n_kv_heads": (None, config.n_heads),
        "activation": tuple(folders.ACTIVATIONS.values()),
    }
    why = naming.no_counterpart(config, known, NAME)
    if why is None and config.d_model % 4:
        return f"{NAME} takes a d_model that is a multiple of 4, not {config.d_model}"
    return why


def described(config: DetectionConfig, labels: tuple[str, ...]) -> dict[str, Any]:
    """What config.json shall say."""
    n_decoder = config.n_decoder_layers or config.n_layers
    resnet = {theirs: getattr(config, ours) for theirs, (ours, _) in RESNET.items()}
    last = f"stage{len(config.resnet_depths)}"
    found: dict[str, Any] = {"architectures": [ARCHITECTURE], "model_type": "detr"}
    found |= {theirs: getattr(config, ours) for theirs, (ours, _) in FIELDS.items()}
    found |= {one: found[other] for one, other in _SAME.items()}
    found |= {"num_hidden_layers": config.n_layers, "decoder_layers": n_decoder}
    found |= {"activation_function": folders.THEIR_ACTIVATIONS[config.activation]}
    found |= {"position_embedding_type": "sine", "auxiliary_loss": False, "dilation": False}
    found |= {"use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None}
    found["backbone_config"] = {
        "model_type": "resnet", "num_channels": CHANNELS, "hidden_act": "relu", **resnet,
        "downsample_in_first_stage": False, "downsample_in_bottleneck": False,
        "out_features": [last],
    }  # fmt: skip
    found |= {"id2label": dict(enumerate(labels))}
    return found | {"label2id": {name: i for i, name in enumerate(labels)}}
