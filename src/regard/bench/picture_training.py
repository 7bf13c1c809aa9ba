"""Vision Transformers at the sizes that others are known by, for ``regard bench train --shape``.

``vit-s16`` is ViT-S/16 at 224 pixels, ``vit-cifar`` a small one for pictures of 32 pixels; both
learn a label a picture. All contenders are given the same random bytes; the unit is a picture.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard.bench.shape_training import N_BATCHES, ShapeBench
from regard.bench.training_peers import Peer, transformers_model
from regard.core.errors import ConfigError
from regard.data.batch import Batch
from regard.models.vision import CHANNELS, VisionConfig, VisionTransformer
from regard.tasks.image_classification import PictureLabelLoss
from regard.tasks.recipe import recipe_from
from regard.training.flops import CallFlops
from regard.training.settings import TrainSettings

EPS = 1e-6
"""Of the norms, as in timm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PictureShape:
    """The sizes of a model and of its batches."""

    image_size: int
    patch_size: int
    d_model: int
    n_layers: int
    n_heads: int
    n_labels: int
    n_pictures: int
    """Of a batch."""

    @property
    def n_units(self) -> int:
        """Pictures that are read in a round."""
        return N_BATCHES * self.n_pictures

    def resized(self, vocab: int | None, batch_tokens: int | None) -> PictureShape:
        """The same: a shape of pictures has neither words nor another batch."""
        if vocab is not None or batch_tokens is not None:
            raise ConfigError("--vocab and --batch-tokens are for models of texts; leave them out")
        return self


class FromBytes(nn.Module):
    """A peer that is given bytes, which become numbers from -1 to 1 first."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, pixels: Tensor) -> Any:
        """(B, 3, H, W) bytes -> what the peer gives."""
        return self.inner((pixels.float() / 255 - 0.5) / 0.5)


def timm_vit(shape: PictureShape) -> nn.Module:
    """VisionTransformer of timm."""
    from timm.models.vision_transformer import VisionTransformer as TimmTransformer

    return FromBytes(
        TimmTransformer(
            img_size=shape.image_size,
            patch_size=shape.patch_size,
            embed_dim=shape.d_model,
            depth=shape.n_layers,
            num_heads=shape.n_heads,
            num_classes=shape.n_labels,
        )
    )


def hf_vit(shape: PictureShape) -> nn.Module:
    """ViTForImageClassification of transformers."""
    return FromBytes(
        transformers_model(
            "ViTForImageClassification",
            image_size=shape.image_size,
            patch_size=shape.patch_size,
            hidden_size=shape.d_model,
            num_hidden_layers=shape.n_layers,
            num_attention_heads=shape.n_heads,
            intermediate_size=4 * shape.d_model,
            num_labels=shape.n_labels,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            layer_norm_eps=EPS,
        )
    )


def picture_batch(shape: PictureShape, rng: torch.Generator) -> Batch:
    """Pixels (B, 3, H, W) as bytes, and a label each (B,)."""
    n, size = shape.n_pictures, (shape.image_size, shape.image_size)
    pixels = torch.randint(0, 256, (n, CHANNELS, *size), generator=rng, dtype=torch.uint8)
    labels = torch.randint(0, shape.n_labels, (n,), generator=rng)
    return Batch({"pixels": pixels, "labels": labels}, tuple(range(n)), n)


def our_vit(shape: PictureShape) -> tuple[VisionTransformer, float]:
    """Our model, and FLOPs of training for one picture: of all its layers, whole."""
    config = VisionConfig(
        image_size=shape.image_size,
        patch_size=shape.patch_size,
        d_model=shape.d_model,
        n_layers=shape.n_layers,
        n_heads=shape.n_heads,
        d_ff=4 * shape.d_model,
        n_labels=shape.n_labels,
        dropout=0.0,
        eps=EPS,
    )
    model = VisionTransformer(config)
    side = shape.image_size
    return model, CallFlops(model.eval()).training(torch.zeros(1, CHANNELS, side, side))


def label_loss(settings: TrainSettings, compiled: bool) -> PictureLabelLoss:
    """What the task of classification makes small; pictures are taken as they are."""
    raw = {"task": "image_classification", "data": {"world": "scenes"}, "train": {"max_steps": 1}}
    recipe = recipe_from(raw).model_copy(update={"train": settings})
    return PictureLabelLoss(recipe, compiled=compiled)


def vit_bench(n_on_cpu: int, **sizes: int) -> ShapeBench:
    """A Vision Transformer beside those of timm and transformers."""
    return ShapeBench(
        unit="images",
        shape=PictureShape(**sizes),
        on_cpu={"n_pictures": n_on_cpu},
        batch=picture_batch,
        inputs=lambda batch: (batch.pixels, batch.labels),
        ours={"": our_vit},
        objective=label_loss,
        peers=(
            Peer("timm", "timm", timm_vit, compiles=True),
            Peer("transformers", "transformers", hf_vit, compiles=True),
        ),
    )


PICTURES = {
    "vit-s16": vit_bench(
        2, image_size=224, patch_size=16, d_model=384, n_layers=12, n_heads=6, n_labels=1000,
        n_pictures=256,
    ),
    "vit-cifar": vit_bench(
        16, image_size=32, patch_size=4, d_model=192, n_layers=9, n_heads=3, n_labels=10,
        n_pictures=1024,
    ),
}  # fmt: skip
"""What can be asked for by name."""
