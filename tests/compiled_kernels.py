"""Compile what our Triton kernels are launched with for a chip that need not be here.

    python tests/compiled_kernels.py 90

Launches become compilations, up to the chip's own code. So a kernel that only its interpreter takes
(a type, a shape, a word that Triton does not know) is found out without a GPU. It prints a line for
each kernel: its module, its name, and the bytes of shared memory of the largest of its variants.
"""

import sys
from collections import defaultdict
from contextlib import nullcontext

import torch
from triton.backends.compiler import GPUTarget
from triton.runtime import driver
from triton.runtime.jit import JITFunction

from regard.kernels import call, gpu
from regard.models.presets import ModelSettings, build, resolve

THREADS_OF_A_WARP = 32
HALF = torch.bfloat16
SYSTEMS = [
    ("bahdanau2015", {}),
    ("cheng2016", {}),
    ("cheng2016", {"fusion": "shallow"}),
    ("deep-att2016", {}),
    ("gnmt2016", {}),
    ("graves2014", {}),
    ("graves2014", {"beta": "fixed"}),
    ("luong2015", {}),
    ("luong2015", {"score": "additive"}),
    ("luong2015", {"score": "dot"}),
    ("moe2017", {}),
    ("seq2seq-attention", {}),
]
"""Whose updates are recorded, cell by cell."""


class Chip:
    """A driver that knows what to compile for, and has nothing to launch on."""

    def __init__(self, capability):
        self.capability = capability

    def get_current_target(self):
        return GPUTarget("cuda", self.capability, THREADS_OF_A_WARP)

    def get_current_device(self):
        return 0

    def get_current_stream(self, _device):
        return 0


def compiling(capability):
    """Let launches compile; -> what they compiled, by module and name."""
    found, run = defaultdict(list), JITFunction.run

    def compiled(self, *given, grid, warmup, **how):
        kernel = run(self, *given, grid=grid, warmup=True, **how)
        found[self.fn.__module__.rpartition(".")[2], self.fn.__name__].append(kernel)

    driver.set_active(Chip(capability))
    JITFunction.run = compiled
    hopper = capability >= 10 * gpu.HOPPER
    gpu.early = lambda _device: {"EARLY": True, "launch_pdl": True} if hopper else {"EARLY": False}
    return found


def recurrences():
    """Steps of recurrent systems, and their gradients, with products of 32 and 16 bits."""
    call.is_recorded = lambda _x: True
    for preset, more in SYSTEMS:
        wanted = ModelSettings(preset=preset, max_len=64, **more)
        model = build(resolve(wanted, n_source_vocab=9, n_target_vocab=9, shared_vocab=True))
        for narrow in (nullcontext(), torch.autocast("cpu", HALF)):
            with call.without_host(), narrow:
                source = torch.tensor([[4, 5, 6], [7, 8, 0]])
                logits = model.train()(source, torch.tensor([[4, 5], [6, 7]]))
                logits.float().sum().backward()


def attention_and_losses():
    """What an update of a Transformer launches."""
    from regard.kernels.gpu import cross_entropy, joined_attention, packed_attention

    texts, spans = torch.zeros(96, dtype=torch.int32), torch.tensor([[0, 64, 0, 64]])
    for kind in (torch.float32, HALF):
        for causal in (True, False):
            qkv = [torch.randn(96, 4, 64, dtype=kind, requires_grad=True) for _ in range(3)]
            found, _ = packed_attention.attend_packed(
                *qkv, texts, texts, spans.int(), 0.1, causal, 64
            )
            found.sum().backward()
        for vocabulary in (8000, 100_000):
            logits, targets = torch.randn(3, vocabulary, dtype=kind), torch.tensor([4, 5, 6])
            cross_entropy.cross_entropy_rows_(logits, targets, pad=0, smoothing=0.1, gradient=True)
    joined = torch.randn(2, 70, 3, 4, 64, dtype=HALF, requires_grad=True)
    joined_attention.attend_joined(joined, 0.1)[0].sum().backward()


def steps_of_decoding():
    """What a step of a search launches: of many rows, of few, of a beam."""
    from regard.kernels.gpu import beam_search, cached_attention, small_batch, step_rows

    def half(*shape):
        return torch.randn(shape, dtype=HALF)

    R, D, H, L, V = 6, 256, 4, 40, 8000
    ids, at = torch.full((R,), 4), torch.zeros(R, dtype=torch.int32)
    table, past = torch.zeros(R, L, dtype=torch.int32), half(2, R, H, L, D // H)
    norm = (torch.ones(D), torch.zeros(D), 1e-5)
    cached_attention.attend_past(half(R, 3 * D), past, table, at, 0.1)
    cached_attention.attend_source(half(R, D), half(90, 2, H, D // H), at, at, at, 0.1)
    turns = torch.randn(L, D // H // 2, dtype=torch.complex64)
    for some in (turns, None):
        cached_attention.attend_own(half(R, 3 * D), past, torch.tensor([3]), some, 0.1)
    step_rows.embed(ids, at, table, half(V, D), torch.randn(L, D), 16.0)
    step_rows.add_norm(half(R, D), half(R, D), norm[0], norm[1], norm[2], True)
    step_rows.best_tokens(half(R, V), 5, 3)
    flags, totals = torch.zeros(R, dtype=torch.int8), torch.zeros(R)
    step_rows.note(ids[:, None], totals[:, None], ids, at, ids, flags, ids, table.long(), totals, 2)
    for then in ("none", "gelu", "swiglu"):
        small_batch.enter(torch.randn(R, D), norm, half(4 * D, D), half(4 * D), then=then)
    small_batch.leave(half(R, 4 * D), half(D, 4 * D), half(D), torch.randn(R, D), norm)
    small_batch.best_tokens(torch.randn(R, D), norm, half(V, D), 5, 3)
    B, K, T = 2, 3, L + 1
    known = beam_search.Known(
        torch.zeros(B, dtype=torch.int64),
        *(torch.zeros(B, K, T, dtype=torch.int64), torch.zeros(B, K)) * 2,
        torch.zeros(B, K),
    )
    beam_search.go_on(
        torch.zeros(R, 5), torch.full((R, 5), 4), known, ids[:B], torch.ones(T + 1), flags[:B],
        ids, at, table, end=2,
    )  # fmt: skip


def main():
    found = compiling(int(sys.argv[1]))
    recurrences()
    attention_and_losses()
    steps_of_decoding()
    for (module, name), kernels in sorted(found.items()):
        print(module, name, max(kernel.metadata.shared for kernel in kernels))


if __name__ == "__main__":
    main()
