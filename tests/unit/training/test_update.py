"""One change of the weights."""

from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from tiny import tiny_config
from torch import nn

from regard.data.examples import Example
from regard.data.pair_batches import collate_pairs, packed_stream, padded_stream, tiled_stream
from regard.kernels.call import without_host
from regard.layers.experts import Gate
from regard.models.bytenet import ByteNetConfig
from regard.models.presets import ModelSettings, build, resolve
from regard.models.transformer import Transformer
from regard.training.settings import TrainSettings
from regard.training.token_loss import TokenLoss, records_padded
from regard.training.update import CapturedUpdate, Update, batch_tensors

CPU = torch.device("cpu")
EXAMPLES = [Example([4, 5, 6][: n % 3 + 1], [7, 8, 4, 5][: n % 4 + 1]) for n in range(40)]


def made(kind=Update, device=CPU, **changes):
    torch.manual_seed(0)
    model = Transformer(tiny_config(n_source_vocab=11, n_target_vocab=11, dropout=0.0))
    settings = TrainSettings(max_steps=1, precision="fp32", **changes)
    model = model.to(device).train()
    return kind(model, TokenLoss(settings), settings, device)


def byte_net(kind, device, *, compiled=False):
    torch.manual_seed(0)
    how, sizes = TrainSettings(max_steps=1, precision="fp32"), {"d_model": 16, "n_sets": 1}
    model = build(ByteNetConfig(n_source_vocab=11, n_target_vocab=11, **sizes)).to(device).train()
    return kind(model, TokenLoss(how, compiled=compiled), how, device)


def compiled_byte_net(kind, device):
    return byte_net(kind, device, compiled=kind is CapturedUpdate)


def test_adam_moves_every_weight_by_the_learning_rate_at_first():
    """The first step of Adam is lr · sign(gradient), whatever the gradient's size."""
    one = made()
    before = {name: p.detach().clone() for name, p in one.model.named_parameters()}
    told = []
    one([padded_stream(EXAMPLES, batch_tokens=64, seed=1).next()], 0.01, told.append)
    moved = torch.cat(
        [(p.detach() - before[name]).abs().flatten() for name, p in one.model.named_parameters()]
    )
    assert moved.max() <= 0.01 * 1.001
    assert (moved > 0.0099).float().mean() > 0.5
    assert len(told) == 1
    assert told[0].losses.total > 0
    assert told[0].norm > 0
    assert all(p.grad is None for p in one.model.parameters())


def test_who_is_told_may_refuse_and_nothing_has_changed():
    one = made()
    before = {name: p.detach().clone() for name, p in one.model.named_parameters()}

    def refuse(_result):
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        one([padded_stream(EXAMPLES, batch_tokens=64, seed=1).next()], 0.01, refuse)
    assert all(torch.equal(p, before[name]) for name, p in one.model.named_parameters())


def test_all_tensors_of_a_batch_are_copied_into_the_recording():
    batch = packed_stream(EXAMPLES, batch_tokens=64, seed=1).next()
    found = batch_tensors(batch)
    assert len(found) == 10
    assert found[0] is batch.source
    assert any(one is batch.spans for one in found)
    assert any(one is batch.target_out for one in found)


RECORDED = [
    "bahdanau2015",
    "cheng2016",
    "convs2s2017",
    "deep-att2016",
    "dmca2018",
    "gnmt2016",
    "graves2014",
    "luong2015",
    "moe2017",
    "seq2seq-attention",
    "sutskever2014",
    "transformer-d",
]
NEEDS_GPU = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="needs a GPU: only there are recordings"
)


def translator(preset, kind=Update, device=CPU, precision=None, **more):
    given = {"d_model": 16, "dropout": 0.0, "max_len": 20, **more}
    settings = ModelSettings(preset=preset, **given)
    config = resolve(settings, n_source_vocab=11, n_target_vocab=11, shared_vocab=True)
    assert config.records
    torch.manual_seed(0)
    model = build(config).to(device).train()
    for gate in (one for one in model.modules() if isinstance(one, Gate)):
        nn.init.normal_(gate.weight)
        gate.eval()  # no noise
    recorded = device.type == "cuda" and getattr(config, "experts", None) is not None
    how = TrainSettings(max_steps=1, precision=precision or ("bf16" if recorded else "fp32"))
    return kind(model, TokenLoss(how), how, device)


@pytest.mark.parametrize(
    ("preset", "more"), [*((name, {}) for name in RECORDED), ("dmca2018", {"experts": 4})]
)
def test_padding_to_a_tile_changes_no_gradient(preset, more):
    """Nor does computing without asking the host, as a recording must."""
    batch = tiled_stream(EXAMPLES, batch_tokens=64, seed=1).next()
    plain = collate_pairs([EXAMPLES[n] for n in batch.numbers], batch.numbers)
    found = []
    for one, where in ((plain, nullcontext()), (batch, without_host())):
        update = translator(preset, **more)
        with where:
            update.backward(one, one.count)
        found.append({name: p.grad for name, p in update.model.named_parameters()})
    assert batch.source.numel() > plain.source.numel()
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "more",
    [
        {"preset": "moe2017", "d_expert": 12},
        {"preset": "bahdanau2015", "normaliser": "hard"},
        {"preset": "dmca2018", "experts": 4, "d_expert": 12},
    ],
)
def test_what_cannot_be_is_not_recorded(more):
    settings = ModelSettings(d_model=16, **more)
    assert not resolve(settings, n_source_vocab=11, n_target_vocab=11, shared_vocab=True).records


def test_experts_are_recorded_in_16_bits_where_one_kernel_serves_them(monkeypatch):
    chip = [9]
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _device: (chip[0], 0))
    sizes = {"n_source_vocab": 11, "n_target_vocab": 11, "shared_vocab": True}
    experts, none = (
        resolve(ModelSettings(preset=one, d_model=16), **sizes) for one in ("moe2017", "gnmt2016")
    )
    gpu = torch.device("cuda")
    assert records_padded(experts, gpu, "bf16")
    assert records_padded(experts, gpu, "auto")
    assert not records_padded(experts, gpu, "fp32")
    assert records_padded(none, gpu, "fp32")
    assert not records_padded(none, CPU, "fp32")
    chip[0] = 8  # where torch asks for the sizes of groups
    assert not records_padded(experts, gpu, "bf16")
    assert records_padded(none, gpu, "bf16")


def test_a_graph_weighs_busy_experts_by_the_tokens_that_it_is_told_of():
    """It is recorded with one batch and replayed with others."""
    batch, found = tiled_stream(EXAMPLES, batch_tokens=64, seed=1).next(), []
    for n_tokens in (batch.count, torch.tensor(batch.count)):
        update = translator("moe2017")
        update.model.train()
        torch.manual_seed(2)
        one = replace(batch, count=batch.count if isinstance(n_tokens, int) else 7)
        with without_host():
            losses = update.backward(one, n_tokens)
        found.append(losses.sums["load"])
    torch.testing.assert_close(found[1], found[0])
    assert found[0] > 0


@NEEDS_GPU
@pytest.mark.parametrize("preset", RECORDED)
def test_updates_of_every_shape_are_recorded(preset):
    device = torch.device("cuda")
    examples = [Example([4, 5, 6] * (n % 6 + 1), [7, 8] * (n % 5 + 1)) for n in range(40)]
    losses = {}
    for kind in (Update, CapturedUpdate):
        one, told = translator(preset, kind, device), []
        longest = one.model.config.longest  # 20 for learned positions, where a tile would have 32
        stream = tiled_stream(examples, batch_tokens=64, seed=1, longest=longest)
        for _ in range(24):
            one([stream.next()], 1e-3, told.append)
        losses[kind] = torch.stack([result.losses.total for result in told])
    assert len(one._recordings) > 1
    near = 2e-2 if preset == "moe2017" else 1e-3  # that one learns in 16 bits
    torch.testing.assert_close(losses[Update], losses[CapturedUpdate], rtol=near, atol=near)


@NEEDS_GPU
@pytest.mark.parametrize(
    ("preset", "experts", "lr"),
    [("transformer-d", {}, 1e-3), ("dmca2018", {}, 1e-3), ("dmca2018", {"experts": 8}, 0.0)],
)
def test_updates_over_documents_are_recorded(preset, experts, lr):
    """With windows whose kernels are chosen by length. Experts go by rounding once they learn."""
    device, found = torch.device("cuda"), {}
    examples = [Example([4, 5, 6] * (n % 8 * 90 + 20), [7, 8] * 5) for n in range(40)]
    more = {"positions": "rotary", "half_width": 4, "max_len": 2500, **experts}
    more["windows"] = ("local_m", "compressed" if preset == "dmca2018" else "global")
    for kind in (Update, CapturedUpdate):
        one, told = translator(preset, kind, device, "bf16", d_model=64, n_heads=2, **more), []
        stream = tiled_stream(examples, batch_tokens=4096, seed=1, longest=2500)
        for _ in range(40):
            one([stream.next()], lr, told.append)
        numbers = [(result.losses.total, result.norm) for result in told]
        found[kind] = [torch.stack(one) for one in zip(*numbers, strict=True)]
    assert len(one._recordings) > 3
    losses, norms = zip(found[Update], found[CapturedUpdate], strict=True)
    torch.testing.assert_close(*losses, rtol=2e-2, atol=2e-2)
    if lr == 0:  # else they part sooner than losses do
        torch.testing.assert_close(*norms, rtol=2e-2, atol=2e-2)


@NEEDS_GPU
def test_recorded_experts_are_as_busy(monkeypatch):
    monkeypatch.setattr(torch, "randn_like", torch.zeros_like)  # noise, which a graph draws anew
    device, busy = torch.device("cuda"), {}
    examples = [Example([4, 5, 6] * (n % 3 + 1), [7, 8] * (n % 3 + 1)) for n in range(40)]
    for kind in (Update, CapturedUpdate):
        one, told = translator("moe2017", kind, device), []
        one.model.train()
        stream = tiled_stream(examples, batch_tokens=64, seed=1)
        for _ in range(16):
            one([stream.next()], 1e-3, told.append)
        sums = [result.losses.sums for result in told]
        busy[kind] = torch.stack([torch.stack((s["importance"], s["load"])) for s in sums])
    torch.testing.assert_close(busy[Update], busy[CapturedUpdate], rtol=5e-2, atol=5e-2)


@NEEDS_GPU
@pytest.mark.parametrize("make", [made, byte_net, compiled_byte_net])
def test_a_recorded_update_is_the_update(make):
    device = torch.device("cuda")
    losses = {}
    for kind in (Update, CapturedUpdate):
        one, told = make(kind, device), []
        stream = packed_stream(EXAMPLES, batch_tokens=64, seed=1)
        for _ in range(8):
            one([stream.next()], 1e-3, told.append)
        losses[kind] = torch.stack([result.losses.total for result in told])
    torch.testing.assert_close(losses[Update], losses[CapturedUpdate])
