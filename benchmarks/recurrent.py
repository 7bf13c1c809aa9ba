"""Training speed of the recurrent systems beside a plain nn.GRU translator without attention.

    python benchmarks/recurrent.py

Same batches in turn; target tokens a second, medians, and each system's share of the plain one.
"""

from __future__ import annotations

import torch
from throughput import Training, interleaved, random_examples, show
from torch import Tensor, nn

from regard.data.batches import BatchStream
from regard.models.presets import build, n_parameters, resolve
from regard.models.settings import ModelSettings

VOCAB, WIDTH = 2000, 256
SYSTEMS = ("bahdanau2015", "luong2015", "cs224n2019", "sutskever2014")


class PlainGRU(nn.Module):
    """Encoder GRU, its last state, decoder GRU: what torch gives with no attention at all."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.source = nn.Embedding(VOCAB, width)
        self.target = nn.Embedding(VOCAB, width)
        self.encoder = nn.GRU(width, width, batch_first=True)
        self.decoder = nn.GRU(width, width, batch_first=True)
        self.to_logits = nn.Linear(width, VOCAB)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Logits (B, T, V); padding is read like any word."""
        _, last = self.encoder(self.source(source))
        out, _ = self.decoder(self.target(target), last)
        return self.to_logits(out)


def main() -> None:
    """Time all of them on the same four batches."""
    torch.manual_seed(0)
    device = torch.device("cpu")
    models: dict[str, nn.Module] = {}
    for name in SYSTEMS:
        settings = ModelSettings(preset=name, d_model=WIDTH)
        models[name] = build(
            resolve(settings, n_source_vocab=VOCAB, n_target_vocab=VOCAB, shared_vocab=True)
        )
    wanted = n_parameters(models["bahdanau2015"])
    models["plain nn.GRU"] = min(
        (PlainGRU(width) for width in range(WIDTH, 2 * WIDTH, 8)),
        key=lambda model: abs(n_parameters(model) - wanted),
    )
    for name, model in models.items():
        print(f"{name:16} {n_parameters(model):,} parameters")
    stream = BatchStream(random_examples(5000, VOCAB), batch_tokens=1024, seed=0)
    batches = [stream.next() for _ in range(4)]
    steps = {name: Training(model, device, "fp32") for name, model in models.items()}

    def train(step: Training) -> int:
        for batch in batches:
            step(batch)
        return sum(batch.n_target_tokens for batch in batches)

    work = {name: lambda step=step: train(step) for name, step in steps.items()}
    show("training", interleaved(work, 5, device))


if __name__ == "__main__":
    main()
