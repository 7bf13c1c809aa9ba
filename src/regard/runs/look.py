"""One sentence, and where every attention of the model looked while it was read and written.

What inspection found and what visual draws meet here: inspection knows models and no pictures,
visual knows pictures and no models.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.core.errors import ConfigError
from regard.core.files import write_whole
from regard.core.registry import did_you_mean
from regard.inspection.weights import Weights


@dataclass(frozen=True, slots=True)
class Look:
    """Tokens, translation and weights by name; the end token is in both lists.

    Row t of ``decoder.cross`` and ``decoder.self`` is the step that *writes* target token t. The
    columns of ``decoder.self`` are what the decoder had read: the begin token, then target tokens.
    """

    source_tokens: tuple[str, ...]
    target_tokens: tuple[str, ...]
    translation: str
    attentions: Mapping[str, tuple[Weights, ...]]
    """Name, such as ``decoder.cross`` -> weights of each layer."""

    def weights(self, name: str, layer: int = 0) -> Weights:
        """(H, T, S) of one attention; layers are counted from 0."""
        if name not in self.attentions:
            known = ", ".join(self.attentions) or "none: this system does not attend"
            hint = did_you_mean(name, self.attentions)
            raise ConfigError(f"no attention {name!r}{hint}; known: {known}")
        layers = self.attentions[name]
        if not 0 <= layer < len(layers):
            raise ConfigError(f"{name} has layers 0 to {len(layers) - 1}, not {layer}")
        return layers[layer]

    def tokens_of(self, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Whose rows and whose columns an attention has."""
        if name == "encoder.self":
            return self.source_tokens, self.source_tokens
        if name == "decoder.self":
            return self.target_tokens, ("<s>", *self.target_tokens[:-1])
        return self.target_tokens, self.source_tokens

    def as_json(self) -> dict[str, Any]:
        """The object of ``regard explain --format json``."""
        return {
            "source_tokens": list(self.source_tokens),
            "target_tokens": list(self.target_tokens),
            "translation": self.translation,
            "attentions": {
                name: [layer.tolist() for layer in layers]
                for name, layers in self.attentions.items()
            },
        }

    def save(self, path: str | Path) -> None:
        """Write the JSON to a file."""
        if Path(path).suffix != ".json":
            raise ConfigError(f"a look is saved as .json, not as {Path(path).name!r}")
        write_whole(Path(path), json.dumps(self.as_json(), ensure_ascii=False) + "\n")
