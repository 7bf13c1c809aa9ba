"""``regard bench train --shape``: models of one text at the sizes that others are known by.

``gpt2-small`` learns the next token of full windows, ``bert-base`` the masked 15 % of full rows.
All contenders learn from the same random ids; the unit is a token that is read. Beside the models
of ``transformers`` stands a plain stack in the manner of nanoGPT, which is what a careful reader of
torch's documentation would write: fused attention, one product for queries, keys and values,
everything compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.bench.contest import BenchRequest, Contender, Work, Workload, compete
from regard.bench.results import OURS, Bench
from regard.bench.training_peers import Peer, transformers_model
from regard.bench.updates import our_updates, plain_updates
from regard.core.errors import ConfigError
from regard.core.registry import Registry
from regard.data.batch import Batch
from regard.models.decoder import LanguageModel
from regard.models.encoder import Encoder
from regard.models.settings import DecoderConfig, EncoderConfig
from regard.tasks.language import NextTokenLoss
from regard.tasks.masked import MaskedLoss
from regard.tasks.opening import pick_device
from regard.training.flops import encoder_flops, text_flops
from regard.training.losses import Objective
from regard.training.settings import TrainSettings

MASKED_SHARE = 0.15
N_BATCHES = 4
"""Batches of a round."""
ON_CPU = {"context": 128, "n_rows": 2}
"""Sizes of a batch where there is no GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextShape:
    """The sizes of a model and of its batches."""

    n_vocab: int
    d_model: int = 768
    n_layers: int = 12
    n_heads: int = 12
    dropout: float
    context: int
    """Tokens of a row."""
    n_rows: int

    @property
    def n_tokens(self) -> int:
        """Tokens that are read in a round."""
        return N_BATCHES * self.n_rows * self.context

    @property
    def sizes(self) -> dict[str, Any]:
        """As our configurations call them."""
        names = ("n_vocab", "d_model", "n_layers", "n_heads", "dropout")
        own = {name: getattr(self, name) for name in names}
        return {**own, "d_ff": 4 * self.d_model, "max_len": self.context}


class PlainGPT(nn.Module):
    """GPT-2 in the manner of nanoGPT: pre-norm, learned positions, the output is the embedding."""

    def __init__(self, shape: TextShape) -> None:
        super().__init__()
        self.tokens = nn.Embedding(shape.n_vocab, shape.d_model)
        self.positions = nn.Embedding(shape.context, shape.d_model)
        self.dropout = nn.Dropout(shape.dropout)
        self.blocks = nn.ModuleList(PlainBlock(shape) for _ in range(shape.n_layers))
        self.norm = nn.LayerNorm(shape.d_model)
        for weight in (self.tokens.weight, self.positions.weight):
            nn.init.normal_(weight, std=0.02)

    def forward(self, ids: Tensor) -> Tensor:
        """(B, T) -> logits (B, T, V)"""
        places = torch.arange(ids.shape[1], device=ids.device)
        x = self.dropout(self.tokens(ids) + self.positions(places))
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.tokens.weight)


class PlainBlock(nn.Module):
    """Causal self-attention, then a feed-forward network with GELU."""

    def __init__(self, shape: TextShape) -> None:
        super().__init__()
        d = shape.d_model
        self.n_heads, self.p = shape.n_heads, shape.dropout
        self.first, self.second = nn.LayerNorm(d), nn.LayerNorm(d)
        self.to_qkv, self.to_out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.inner, self.outer = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D)"""
        B, T, D = x.shape
        qkv = self.to_qkv(self.first(x)).view(B, T, 3, self.n_heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)  # each (B, H, T, Dh)
        p = self.p if self.training else 0.0
        found = F.scaled_dot_product_attention(q, k, v, dropout_p=p, is_causal=True)
        x = x + self.dropout(self.to_out(found.transpose(1, 2).reshape(B, T, D)))
        return x + self.dropout(self.outer(F.gelu(self.inner(self.second(x)))))


def hf_gpt2(shape: TextShape) -> Any:
    """GPT2LMHeadModel of a shape."""
    rates = dict.fromkeys(("resid_pdrop", "embd_pdrop", "attn_pdrop"), shape.dropout)
    return transformers_model(
        "GPT2LMHeadModel",
        vocab_size=shape.n_vocab,
        n_positions=shape.context,
        n_embd=shape.d_model,
        n_layer=shape.n_layers,
        n_head=shape.n_heads,
        use_cache=False,
        **rates,
    )


def hf_bert(shape: TextShape) -> Any:
    """BertForMaskedLM of a shape."""
    return transformers_model(
        "BertForMaskedLM",
        vocab_size=shape.n_vocab,
        hidden_size=shape.d_model,
        num_hidden_layers=shape.n_layers,
        num_attention_heads=shape.n_heads,
        intermediate_size=4 * shape.d_model,
        max_position_embeddings=shape.context,
        hidden_dropout_prob=shape.dropout,
        attention_probs_dropout_prob=0.0,
    )


class WithLoss(nn.Module):
    """A peer and its loss in one module, so that both are compiled together as nanoGPT does."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, ids: Tensor, targets: Tensor) -> Tensor:
        """ids (B, T), targets (B, T) -> the mean over all targets but those of -100."""
        out = self.inner(ids)
        logits = getattr(out, "logits", out)  # where a model of transformers has them
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


@dataclass(frozen=True, slots=True, kw_only=True)
class TextBench:
    """What is learned, by whom."""

    shape: TextShape
    batch: Callable[[TextShape, torch.Generator], Batch]
    inputs: Callable[[Batch], tuple[Tensor, Tensor]]
    """What a peer reads, and what it should predict."""
    ours: Callable[[Any, TextShape], tuple[nn.Module, float]]
    """A kind of positions, a shape -> our model, and FLOPs of training for one token."""
    objective: Callable[[TrainSettings, bool], Objective]
    """(settings, compiled) -> our loss."""
    peers: tuple[Peer, ...]


def window_batch(shape: TextShape, rng: torch.Generator) -> Batch:
    """Full windows (B, T + 1): every token but the first is to be predicted."""
    size = (shape.n_rows, shape.context + 1)
    ids = torch.randint(0, shape.n_vocab, size, generator=rng)
    return Batch({"target": ids}, tuple(range(shape.n_rows)), shape.n_rows * shape.context)


def masked_batch(shape: TextShape, rng: torch.Generator) -> Batch:
    """Full rows (B, S); a share of each batch is to be guessed, elsewhere ``labels`` are -100."""
    size = (shape.n_rows, shape.context)
    ids = torch.randint(1, shape.n_vocab, size, generator=rng)
    n_guessed = max(1, round(MASKED_SHARE * ids.numel()))
    positions = torch.randperm(ids.numel(), generator=rng)[:n_guessed].sort().values
    guessed = torch.zeros(ids.numel(), dtype=torch.bool).index_fill(0, positions, True).view(size)
    tensors = {
        "ids": ids.masked_fill(guessed, 1),  # 1 stands for a mask
        "segments": torch.zeros_like(ids),
        "positions": positions,
        "targets": ids[guessed],
        "labels": ids.masked_fill(~guessed, -100),
    }
    return Batch(tensors, tuple(range(shape.n_rows)), n_guessed)


def our_gpt(positions: Any, shape: TextShape) -> tuple[LanguageModel, float]:
    """A language model, and its FLOPs a token."""
    model = LanguageModel(DecoderConfig(**shape.sizes, positions=positions))
    return model, text_flops(model, shape.context).training(1, shape.context) / shape.context


def our_bert(positions: Any, shape: TextShape) -> tuple[Encoder, float]:
    """An encoder that guesses words, and its FLOPs a token."""
    model = Encoder(EncoderConfig(**shape.sizes, positions=positions, head="masked"))
    n_guessed = round(MASKED_SHARE * shape.context)
    return model, encoder_flops(model).training(1, shape.context, n_guessed) / shape.context


SHAPES: Registry[TextBench] = Registry("shape")
SHAPES.add("gpt2-small")(
    TextBench(  # the vocabulary is padded to a multiple of 64, as nanoGPT does
        shape=TextShape(n_vocab=50304, dropout=0.0, context=1024, n_rows=32),
        batch=window_batch,
        inputs=lambda batch: (batch.target_in, batch.target_out),
        ours=our_gpt,
        objective=lambda settings, compiled: NextTokenLoss(settings, compiled=compiled),
        peers=(
            Peer("torch", "torch", PlainGPT, compiles=True),
            Peer("transformers", "transformers", hf_gpt2, compiles=True),
        ),
    )
)
SHAPES.add("bert-base")(
    TextBench(
        shape=TextShape(n_vocab=30528, dropout=0.1, context=512, n_rows=64),
        batch=masked_batch,
        inputs=lambda batch: (batch.ids, batch.labels),
        ours=our_bert,
        objective=lambda settings, compiled: MaskedLoss(
            settings.label_smoothing, compiled=compiled
        ),
        peers=(Peer("transformers", "transformers", hf_bert, compiles=True),),
    )
)


def text_train_bench(
    asked: BenchRequest, name: str, *, vocab: int | None = None, batch_tokens: int | None = None
) -> Bench:
    """Everybody on the same windows, of the shape's sizes where no others are asked for."""
    bench, device = SHAPES[name], pick_device(asked.device)
    if asked.long:
        raise ConfigError("--long goes without --shape: a shape has its own length and batch")
    if "int8" in asked.precisions:
        raise ConfigError("training takes fp32 or bf16, not int8")
    shape = bench.shape if device.type == "cuda" else replace(bench.shape, **ON_CPU)
    if batch_tokens is not None:
        context = min(shape.context, batch_tokens)
        shape = replace(shape, context=context, n_rows=batch_tokens // context)
    shape = replace(shape, n_vocab=vocab or shape.n_vocab)
    who = asked.chosen({peer.name: peer.package for peer in bench.peers})
    found = [
        contender
        for precision in asked.precisions
        for contender in contenders(bench, shape, device, precision)
        if contender.who in who
    ]
    plan = asked.plan()
    rows = compete(Workload(what=f"training {name}", unit="tokens/s"), found, plan)
    return plan.bench(rows, {"shape": asdict(shape), "tokens": shape.n_tokens})


def text_batches(bench: TextBench, shape: TextShape) -> list[Batch]:
    """Those of a round; the same at each call."""
    rng = torch.Generator().manual_seed(0)
    return [bench.batch(shape, rng) for _ in range(N_BATCHES)]


def contenders(
    bench: TextBench, shape: TextShape, device: torch.device, precision: str
) -> Iterator[Contender]:
    """Ourselves first, with each kind of positions, then the peers; compiled on a GPU."""
    on_gpu = device.type == "cuda"
    batches = text_batches(bench, shape)

    def counted(work: Work, flops: float) -> Work:
        """In tokens that are read."""
        return replace(work, run=lambda: work.run() and shape.n_tokens, flops=flops)

    def loss(forward: Callable[..., Tensor], batch: Batch) -> Tensor:
        return forward(*bench.inputs(batch))

    def ours(positions: str) -> Work:
        torch.manual_seed(0)
        model, flops = bench.ours(positions, shape)
        how = {"max_steps": 1, "precision": precision, "label_smoothing": 0.0}
        settings = TrainSettings.model_validate(how)
        objective = bench.objective(settings, on_gpu)
        work = our_updates(model, objective, batches, settings, device, captured=on_gpu)
        return counted(work, flops)

    def theirs(peer: Peer, compiled: bool) -> Work:
        torch.manual_seed(0)
        model, how = WithLoss(peer.make(shape)), {"compiled": compiled, "dynamic": False}
        work = plain_updates(model, batches, loss, device, precision, **how)
        return counted(work, bench.ours("learned", shape)[1])

    for positions in ("learned", "rotary"):
        how = f"{positions} positions{', compiled' if on_gpu else ''}"
        yield Contender(OURS, how, precision, partial(ours, positions))
    for peer in bench.peers:
        for way in reversed(peer.ways(device)):
            yield Contender(peer.name, way, precision, partial(theirs, peer, bool(way)))
