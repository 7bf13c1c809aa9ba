"""Training and greedy decoding, ours beside torch.nn.Transformer of the same shape, in one run.

    python benchmarks/throughput.py --size small --vocab 8000

Both get the same batches in turn; the numbers are medians over the rounds, in target tokens a
second (padding not counted), and their ratio.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import torch
from peers import TorchTransformer

from regard.data.batches import Batch, BatchStream, Example
from regard.models.presets import build, resolve
from regard.models.settings import ModelSettings
from regard.training.losses import token_loss
from regard.training.precision import autocast


def random_examples(n: int, vocab: int, seed: int = 0) -> list[Example]:
    """Log-normal lengths around 24 tokens, source and target alike."""
    rng = torch.Generator().manual_seed(seed)
    lengths = (torch.randn(n, generator=rng) * 0.5 + 3.05).exp().clamp(4, 120).long().tolist()
    draw = lambda k: torch.randint(4, vocab, (k,), generator=rng).tolist()  # noqa: E731
    return [Example(draw(k), draw(max(3, round(k * 1.1)))) for k in lengths]


def wait(device: torch.device) -> None:
    """Let the device finish, so that the clock tells the truth."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class Training:
    """One training step of one model."""

    def __init__(self, model: torch.nn.Module, device: torch.device, precision: str) -> None:
        self.model = model.to(device).train()
        self.optimiser = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
        self.device, self.precision = device, precision

    def __call__(self, batch: Batch) -> None:
        """Forward, backward, update."""
        with autocast(self.device, self.precision):
            logits = self.model(batch.source, batch.target_in)
            loss = token_loss(logits, batch.target_out, pad=0, label_smoothing=0.1)
        (loss / batch.n_target_tokens).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)


@torch.inference_mode()
def greedy(model: torch.nn.Module, source: torch.Tensor, n_steps: int, begin: int) -> torch.Tensor:
    """Our protocol, driven for a fixed number of steps."""
    memory = model.encode(source)
    state = model.start(memory)
    written = [torch.full((source.shape[0],), begin, device=source.device)]
    for _ in range(n_steps):
        logits, state = model.step(written[-1], memory, state)
        written.append(logits.argmax(dim=-1))
    return torch.stack(written, dim=1)


def interleaved(
    systems: dict[str, Callable[[], int]], rounds: int, device: torch.device
) -> dict[str, list[float]]:
    """Tokens a second of each system, round after round; the first round warms up."""
    speeds: dict[str, list[float]] = {name: [] for name in systems}
    for i in range(rounds + 1):
        for name, work in systems.items():
            wait(device)
            began = time.perf_counter()
            tokens = work()
            wait(device)
            if i:
                speeds[name].append(tokens / (time.perf_counter() - began))
    return speeds


def show(what: str, speeds: dict[str, list[float]]) -> None:
    """Medians, spread, and the ratio of the first system to the others."""
    medians = {name: statistics.median(values) for name, values in speeds.items()}
    first = next(iter(medians))
    for name, values in speeds.items():
        spread = f"{min(values):,.0f} … {max(values):,.0f}"
        ratio = medians[first] / medians[name]
        print(f"{what:28} {name:16} {medians[name]:>12,.0f} tokens/s ({spread})  ×{ratio:.2f}")


def main() -> None:
    """Read the flags, build both models, time them."""
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("--size", default="small")
    flags.add_argument("--vocab", type=int, default=8000)
    flags.add_argument("--batch-tokens", type=int, default=2048)
    flags.add_argument("--rounds", type=int, default=5)
    flags.add_argument("--steps", type=int, default=25)
    flags.add_argument("--precision", default="fp32")
    flags.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    asked = flags.parse_args()
    device = torch.device(asked.device)
    torch.manual_seed(0)
    config = resolve(
        ModelSettings(size=asked.size),
        n_source_vocab=asked.vocab,
        n_target_vocab=asked.vocab,
        shared_vocab=True,
    )
    ours, theirs = build(config), TorchTransformer(config)
    print(
        f"torch {torch.__version__}, {device}, {torch.get_num_threads()} threads, "
        f"{asked.precision}, {asked.size}: {sum(p.numel() for p in ours.parameters()):,} parameters"
    )
    stream = BatchStream(
        random_examples(20_000, asked.vocab), batch_tokens=asked.batch_tokens, seed=0
    )
    batches = [stream.next().to(device) for _ in range(4)]
    steps = {
        "regard": Training(ours, device, asked.precision),
        "nn.Transformer": Training(theirs, device, asked.precision),
    }

    def train(step: Training) -> int:
        for batch in batches:
            step(batch)
        return sum(batch.n_target_tokens for batch in batches)

    work = {name: lambda step=step: train(step) for name, step in steps.items()}
    show("training", interleaved(work, asked.rounds, device))

    ours.eval(), theirs.eval()
    for n_rows in (1, 32):
        source = torch.randint(4, asked.vocab, (n_rows, 24), device=device)
        with torch.inference_mode():
            work = {
                "regard": lambda s=source: greedy(ours, s, asked.steps, 1).numel(),
                "nn.Transformer": lambda s=source: theirs.greedy(s, asked.steps, 1).numel(),
            }
            show(f"greedy, batch {n_rows}", interleaved(work, asked.rounds, device))


if __name__ == "__main__":
    main()
