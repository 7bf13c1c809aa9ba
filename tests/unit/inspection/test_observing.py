"""Attention of modules that know nothing of us, seen in one pass of their own."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import regard
from regard.inspection.observing import named, observed_call

MOST = 10**6


def seen(model, *inputs, layers=None, **more):
    """What the model gives, and name -> weights (H, T, S) of each layer."""
    output, found = observed_call(model, lambda: model(*inputs, **more), most=MOST, layers=layers)
    weights = {
        name: [torch.from_numpy(one.record.weights) for one in some]
        for name, some in named(found).items()
    }
    return output, weights, found


class ByHand(nn.Module):
    """Attention with its scores written out in one of several ways; grouped heads in the first."""

    def __init__(self, way, n_heads=3):
        super().__init__()
        self.way, self.n_heads = way, n_heads
        self.qkv = nn.Linear(12, 36)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x, mask=None):
        q, k, v = (
            part.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
            for part in self.qkv(x).chunk(3, dim=-1)
        )
        return getattr(self, self.way)(q, k, v, mask).transpose(1, 2).flatten(2)

    def sdpa(self, q, k, v, mask):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.3)

    def causal(self, q, k, v, _mask):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def grouped(self, q, k, v, mask):
        return F.scaled_dot_product_attention(q, k[:, :1], v[:, :1], mask, enable_gqa=True)

    def matmul(self, q, k, v, mask):
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        return self.dropout(F.softmax(scores, dim=-1, dtype=torch.float32)).type_as(v) @ v

    def in_place(self, q, k, v, mask):
        scores = torch.matmul(q, k.mT)
        scores *= 0.3
        scores += torch.zeros(mask.shape).masked_fill_(~mask, torch.finfo(torch.float32).min)
        return torch.matmul(scores.softmax(-1), v)

    def einsum(self, q, k, v, mask):
        scores = torch.einsum("b h i d, b h j d -> b h i j", q, k) * 0.3
        return torch.einsum("bhij,bhjd->bhid", scores.masked_fill(~mask, -1e30).softmax(-1), v)

    def flattened(self, q, k, v, _mask):
        bias = torch.linspace(-1, 1, q.shape[2]).to(q.dtype).expand(q.shape[1], q.shape[2], -1)
        scores = torch.baddbmm(bias, q.flatten(0, 1), k.flatten(0, 1).mT, alpha=0.3)
        weights = scores.view(*q.shape[:2], *scores.shape[1:]).softmax(dim=3)
        return weights.flatten(0, 1).bmm(v.flatten(0, 1)).unflatten(0, q.shape[:2])

    def keywords(self, q, k, v, mask):
        size = (q.shape[1], q.shape[2], k.shape[2])
        scores = torch.baddbmm(
            input=torch.zeros(size).to(q), batch1=q[0], batch2=k[0].mT, beta=0, alpha=0.3
        )
        scores = torch.masked_fill(input=scores, mask=~mask[0], value=-math.inf)
        weights = F.dropout(input=torch.softmax(input=scores, dim=-1), p=0.5, training=False)
        return torch.bmm(input=weights, mat2=v[0])[None]

    def sink(self, q, k, v, mask):
        scores = (q @ k.mT * 0.3).masked_fill(~mask, -math.inf)
        scores = torch.cat((scores, torch.full((1, 3, 5, 1), 0.7, dtype=q.dtype)), dim=-1)
        scores = scores - scores.max(dim=-1, keepdim=True).values
        return self.dropout(scores.softmax(-1)[..., :-1]) @ v


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    "way",
    ["sdpa", "causal", "grouped", "matmul", "in_place", "einsum", "flattened", "sink", "keywords"],
)
def test_weights_give_the_very_output(rng, way, masked):
    model, x = ByHand(way).double(), torch.randn(1, 5, 12, generator=rng).double()
    mask = torch.ones(1, 1, 5, 5, dtype=torch.bool)
    if masked:
        mask[..., 1] = False
    output, weights, (found,) = seen(model, x, mask)
    assert torch.equal(output, model.eval()(x, mask))
    values = torch.from_numpy(found.record.outputs)  # (H, T, Dv)
    assert (values.transpose(0, 1).flatten(1) - output[0]).abs().max() < 1e-6
    (layer,) = weights["decoder.self" if way == "causal" else "encoder.self"]
    assert (layer.sum(-1) - 1).abs().max() < 1e-6
    if way == "causal":
        assert not layer.triu(1).any()
    elif masked and way != "flattened":
        assert not layer[..., 1].any()
        assert not found.record.visible[..., 1].any()


@pytest.mark.parametrize("way", ["sdpa", "matmul", "in_place", "einsum"])
def test_scores_scale_and_bias_are_told_apart(rng, way):
    model, x = ByHand(way), torch.randn(1, 5, 12, generator=rng)
    _, _, (found,) = seen(model, x, torch.ones(1, 1, 5, 5, dtype=torch.bool))
    record = found.record
    assert record.scale == pytest.approx(0.5 if way == "matmul" else 0.3)
    assert record.bias is None
    wanted = torch.from_numpy(record.q) @ torch.from_numpy(record.k).mT
    assert (torch.from_numpy(record.scores) - wanted).abs().max() < 1e-5


def test_what_was_added_to_scores_is_the_bias(rng):
    _, _, (found,) = seen(ByHand("flattened"), torch.randn(1, 5, 12, generator=rng))
    wanted = torch.linspace(-1, 1, 5).expand(3, 5, 5)
    assert (torch.from_numpy(found.record.bias) - wanted).abs().max() < 1e-5


def test_a_sink_is_a_column_more(rng):
    everything = torch.ones(1, 1, 5, 5, dtype=torch.bool)
    _, _, (found,) = seen(ByHand("sink"), torch.randn(1, 5, 12, generator=rng), everything)
    assert found.added_keys == ("<sink>",)
    assert found.record.weights.shape == (3, 5, 6)
    bias = torch.from_numpy(found.record.bias)
    assert bias[..., :5].abs().max() < 1e-6
    assert (bias[..., 5] - 0.7).abs().max() < 1e-6
    assert not found.group.crosses


def test_a_causal_sink_is_of_a_decoder(rng):
    behind = torch.ones(1, 1, 5, 5, dtype=torch.bool).tril()
    _, weights, _ = seen(ByHand("sink"), torch.randn(1, 5, 12, generator=rng), behind)
    assert list(weights) == ["decoder.self"]


def test_an_added_mask_of_sdpa_is_bias_and_hiding(rng):
    mask = torch.randn(1, 1, 5, 5, generator=rng)
    mask[..., 2] = -math.inf
    _, (layer,), (found,) = _flat(seen(ByHand("sdpa"), torch.randn(1, 5, 12, generator=rng), mask))
    record = found.record
    wanted = torch.from_numpy(record.scores) * 0.3 + mask[0]
    assert (layer - wanted.softmax(-1)).abs().max() < 1e-6
    assert not record.visible[..., 2].any()
    assert record.visible[..., 3].all()


def _flat(found):
    output, weights, sightings = found
    ((_, layers),) = weights.items()
    return output, layers, sightings


# ------------------------------------------------------------------ nn.MultiheadAttention


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"add_bias_kv": True},
        {"add_zero_attn": True},
        {"add_bias_kv": True, "add_zero_attn": True, "bias": False},
        {"kdim": 7, "vdim": 5},
    ],
    ids=str,
)
@pytest.mark.parametrize("padding", [None, "bool", "float"])
def test_multihead_attention(rng, batch_first, fast, settings, padding):
    module = nn.MultiheadAttention(12, 4, batch_first=batch_first, dropout=0.4, **settings).eval()
    x = torch.randn(2, 5, 12, generator=rng)
    memory = (torch.randn(2, 5, settings.get(key, 12), generator=rng) for key in ("kdim", "vdim"))
    given = tuple(memory) if "kdim" in settings else (x, x)
    hidden = torch.zeros(2, 5, dtype=torch.bool)
    hidden[0, 3:] = True
    mask = {None: None, "bool": hidden, "float": torch.zeros(2, 5).masked_fill(hidden, -math.inf)}
    inputs = [x, *given] if batch_first else [one.transpose(0, 1) for one in (x, *given)]
    if "kdim" not in settings:
        inputs = [inputs[0]] * 3
    masks = {"key_padding_mask": mask[padding]}
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(fast)
    try:
        with torch.no_grad():
            alone, wanted = module(*inputs, **masks, average_attn_weights=False)
        output, (layer,), (found,) = _flat(seen(module, *inputs, **masks))
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
    assert torch.equal(output[0], alone)
    assert (layer - wanted[0]).abs().max() < 1e-6
    assert found.group.crosses == ("kdim" in settings)
    assert found.n_rows == 2
    n_added = settings.get("add_bias_kv", 0) + settings.get("add_zero_attn", 0)
    assert len(found.added_keys) == n_added == layer.shape[-1] - 5
    head_outputs = torch.from_numpy(found.record.outputs)  # (H, T, Dv)
    projected = torch.einsum("htd,hde->te", head_outputs, torch.from_numpy(found.record.to_out))
    first = alone[0] if batch_first else alone[:, 0]
    assert (projected + _bias(module) - first).abs().max() < 1e-5


def _bias(module):
    return 0.0 if module.out_proj.bias is None else module.out_proj.bias.detach()


def test_masks_of_each_head_and_a_text_without_a_batch(rng):
    module = nn.MultiheadAttention(12, 3).eval()
    x, mask = torch.randn(5, 12, generator=rng), torch.rand(3, 5, 5, generator=rng) > 0.7
    mask[..., 0] = False
    with torch.no_grad():
        _, wanted = module(x, x, x, attn_mask=mask, average_attn_weights=False)
    _, (layer,), _ = _flat(seen(module, x, x, x, attn_mask=mask))
    assert (layer - wanted).abs().max() < 1e-6


@pytest.mark.parametrize("n_heads", [3, 4])
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.filterwarnings(
    "ignore:enable_nested_tensor is True", "ignore:The PyTorch API of nested"
)
def test_an_encoder_takes_the_path_that_it_takes_alone(rng, n_heads, norm_first, fast):
    layer = nn.TransformerEncoderLayer(12, n_heads, 20, batch_first=True, norm_first=norm_first)
    model = nn.TransformerEncoder(layer, 2).eval()
    x, hidden = torch.randn(2, 5, 12, generator=rng), torch.zeros(2, 5, dtype=torch.bool)
    hidden[1, 2:] = True  # the row that is seen has no padding
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(fast)
    try:
        with torch.no_grad():
            alone = model(x, src_key_padding_mask=hidden)
        output, weights, found = seen(model, x, src_key_padding_mask=hidden)
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
    assert torch.equal(output, alone)
    if fast and n_heads == 4 and not norm_first:
        assert not output[1, 2:].any()  # nothing but the fast path leaves out what is hidden
    wanted = _layer_by_layer(model, x[:1])
    assert [one.path for one in found] == ["layers.0.self_attn", "layers.1.self_attn"]
    for ours, theirs in zip(weights["encoder.self"], wanted, strict=True):
        assert (ours - theirs).abs().max() < 1e-5


@torch.no_grad()
def _layer_by_layer(model, x):
    found = []
    for layer in model.layers:
        given = layer.norm1(x) if layer.norm_first else x
        found.append(layer.self_attn(given, given, given, average_attn_weights=False)[1][0])
        x = layer(x)
    return found


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
def test_a_translator_of_torch_has_our_names(rng):
    model = nn.Transformer(12, 3, 2, 3, 20, batch_first=True).eval()
    source, target = (torch.randn(1, n, 12, generator=rng) for n in (5, 4))
    mask = nn.Transformer.generate_square_subsequent_mask(4)
    _, weights, _ = seen(model, source, target, tgt_mask=mask)
    shapes = {name: [tuple(one.shape) for one in some] for name, some in weights.items()}
    assert shapes == {
        "encoder.self": [(3, 5, 5)] * 2,
        "decoder.self": [(3, 4, 4)] * 3,
        "decoder.cross": [(3, 4, 5)] * 3,
    }
    assert not weights["decoder.self"][0].triu(1).any()


# ------------------------------------------------------------------ names, bounds, nothing left


class Towers(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.ModuleList(ByHand("sdpa") for _ in range(2))
        self.pixels = nn.ModuleList(ByHand("matmul") for _ in range(3))

    def forward(self, x):
        for one in (*self.words, *self.pixels):
            x = one(x)
        return x


def test_stacks_of_the_same_kind_are_called_by_their_paths(rng):
    _, weights, found = seen(Towers(), torch.randn(1, 5, 12, generator=rng))
    assert {name: len(some) for name, some in weights.items()} == {
        "words.self": 2,
        "pixels.self": 3,
    }
    assert found[-1].path == "pixels.2"


def test_attentions_of_one_layer_are_told_apart(rng):
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.near, self.far, self.src_attn = (ByHand("sdpa") for _ in range(3))

        def forward(self, x):
            return self.src_attn(self.far(self.near(x)))

    stack = nn.ModuleDict({"decoder": nn.Sequential(Layer(), Layer())})
    x = torch.randn(1, 5, 12, generator=rng)
    _, found = observed_call(stack, lambda: stack["decoder"](x), most=MOST)
    names = {name: [one.path for one in some] for name, some in named(found).items()}
    assert names == {
        "decoder.near.self": ["decoder.0.near", "decoder.1.near"],
        "decoder.far.self": ["decoder.0.far", "decoder.1.far"],
        "decoder.cross": ["decoder.0.src_attn", "decoder.1.src_attn"],
    }


def test_lengths_are_named_where_they_differ(rng):
    class Halved(nn.Sequential):
        def forward(self, x):
            return self[1](self[0](x)[:, ::2])

    model = Halved(ByHand("sdpa"), ByHand("sdpa"))
    _, weights, _ = seen(model, torch.randn(1, 6, 12, generator=rng))
    assert list(weights) == ["encoder.self.6x6", "encoder.self.3x3"]


def test_a_layer_that_is_used_again_is_a_layer_more(rng):
    shared = ByHand("sdpa")
    _, weights, _ = seen(nn.Sequential(shared, shared), torch.randn(1, 5, 12, generator=rng))
    assert len(weights["encoder.self"]) == 2


def test_some_layers_alone_are_kept(rng):
    model, x = Towers(), torch.randn(1, 5, 12, generator=rng)
    _, every, _ = seen(model, x)
    _, weights, found = seen(model, x, layers=[2])
    assert [one.path for one in found] == ["pixels.2"]
    assert torch.equal(weights["encoder.self"][0], every["pixels.self"][2])
    with pytest.raises(regard.ConfigError, match="layers=\\[3\\]: the model has layers 0 to 2"):
        seen(model, x, layers=[3])


def test_more_than_may_be_kept_is_refused_with_the_way_out(rng):
    model, x = Towers(), torch.randn(1, 5, 12, generator=rng)
    with pytest.raises(regard.DataError, match="at most 80 weights.* makes it 150; .*layers="):
        observed_call(model, lambda: model(x), most=80)
    _, found = observed_call(model, lambda: model(x), most=160, layers=[0])
    assert len(found) == 2


def test_nothing_is_left_behind_even_after_an_error(rng):
    model = nn.Sequential(ByHand("sdpa"), nn.Linear(99, 1)).train()
    model[0].eval()
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        seen(model, torch.randn(1, 5, 12, generator=rng))
    assert [one.training for one in model] == [False, True]
    assert all("forward" not in vars(one) for one in model.modules())
    assert torch.is_grad_enabled()
    assert model[0](torch.randn(1, 5, 12)).requires_grad


def test_a_forward_of_ones_own_is_put_back(rng):
    model = ByHand("sdpa")
    own = model.forward
    model.forward = own
    seen(model, torch.randn(1, 5, 12, generator=rng))
    assert model.forward is own


def test_a_router_and_a_classifier_are_no_attention(rng):
    class Gates(nn.Module):
        def forward(self, x):
            return torch.softmax(x @ torch.ones(12, 4), dim=-1) @ torch.ones(4, 12)

    with pytest.raises(regard.ConfigError, match="no attention was seen in Gates"):
        seen(Gates(), torch.randn(1, 5, 12, generator=rng))
