"""Which peers there are, and which of them are installed here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from torch import nn

from regard.bench.peers.joey import Joey
from regard.bench.peers.marian import Marian
from regard.bench.peers.torch_transformer import TorchTransformer
from regard.bench.peers.x_transformers import XTransformers
from regard.bench.rows import OURS
from regard.core.errors import ConfigError
from regard.core.registry import did_you_mean
from regard.models.transformer import TransformerConfig


@dataclass(frozen=True, slots=True)
class Peer:
    """A package that trains a Transformer."""

    name: str
    package: str
    make: Callable[[TransformerConfig], nn.Module]
    compiles: bool = False
    """Whether it is also tried with torch.compile, on a GPU."""


PEERS = (
    Peer("torch.nn.Transformer", "torch", TorchTransformer),
    Peer("transformers", "transformers", Marian, compiles=True),
    Peer("x-transformers", "x_transformers", XTransformers),
    Peer("joeynmt", "joeynmt", Joey),
)


def chosen(names: Sequence[str], packages: Mapping[str, str]) -> set[str]:
    """Who takes part: of us and the peers, each with its package, those asked for by ``--only``.

    Where none is named, all that are installed.
    """
    everybody = (OURS, *packages)
    there = {OURS, *(name for name, package in packages.items() if find_spec(package))}
    for name in names:
        if name not in everybody:
            raise ConfigError(
                f"there is no contender {name!r}{did_you_mean(name, everybody)}; "
                f"known: {', '.join(everybody)}"
            )
        if name not in there:
            raise ConfigError(
                f"{name} is not installed; get it by pip install {name}, or leave it out of --only"
            )
    return set(names) or there
