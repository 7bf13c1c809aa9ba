"""Laws of models for which source and target are one text, with sources of different lengths."""

import pytest
import torch
from systems import system
from torch.utils._python_dispatch import TorchDispatchMode

import regard
from regard.checkpoints.run_folder import RunFolder, load_model, model_tensors, save_model
from regard.core.errors import ConfigError
from regard.decoding.beam import beam_search
from regard.decoding.greedy import greedy
from regard.inspection.capture import watch
from regard.layers.attention import MultiHeadAttention
from regard.models.prefix_decoder import BothLogits
from regard.models.presets import PRESETS, ModelSettings, build, n_parameters, resolve
from regard.text.specials import PAD_ID

PRESET = {"transformer-d": {}, "dmca2018": {}}
VARIANTS = [
    ("transformer-d", {}),
    ("dmca2018", {}),
    ("dmca2018", {"positions": "rotary"}),
    ("dmca2018", {"windows": ("compressed",)}),
    ("dmca2018", {"n_kv_heads": 1, "half_width": 3, "norm_first": False}),
    ("dmca2018", {"experts": 4, "expert_layers": (2,)}),
    ("transformer-d", {"window": "local_m"}),
    ("transformer-d", {"window": "local_m", "half_width": 2, "positions": "rotary"}),
    ("transformer-d", {"window": "local_m", "half_width": 2, "positions": "alibi"}),
    ("transformer-d", {"window": "local_m", "half_width": 2, "score": "location"}),
    *(
        ("transformer-d", {"window": "local_m", "positions": "rotary", "half_width": 2, "score": s})
        for s in ("general", "tanh_product", "content")
    ),
    ("transformer-d", {"window": "block", "half_width": 2, "positions": "rotary"}),
    ("transformer-d", {"window": "local_p"}),
    ("transformer-d", {"windows": ("block", "global"), "positions": "rotary"}),
    ("transformer-d", {"positions": "alibi"}),
    ("transformer-d", {"positions": "learned"}),
    ("transformer-d", {"positions": "index"}),
    ("transformer-d", {"positions": "sinusoidal", "join": "concat", "d_positions": 4}),
    *(("transformer-d", {"score": name}) for name in ("additive", "content", "location")),
]
every_variant = pytest.mark.parametrize(("preset", "changes"), VARIANTS, ids=str)
LENGTHS = (11, 7, 6, 5, 1)


@pytest.fixture
def source(rng):
    ids = torch.randint(4, 13, (5, 11), generator=rng)
    behind = torch.arange(11) >= torch.tensor(LENGTHS)[:, None]
    return ids.masked_fill(behind, PAD_ID)


@pytest.fixture
def target(rng):
    return torch.randint(4, 13, (5, 8), generator=rng)


def model_of(preset, **changes):
    return system(preset, **changes).double()


@every_variant
def test_stepping_equals_forward(source, target, preset, changes):
    model = model_of(preset, **changes)
    full, memory = model(source, target), model.encode(source)
    state = model.start(memory)
    for t in range(target.shape[1]):
        logits, state = model.step(target[:, t], memory, state)
        torch.testing.assert_close(logits, full[:, t])
    assert state.length == 8


@every_variant
@pytest.mark.parametrize("cuts", [(), (3,), (1, 2, 6)])
def test_reading_several_at_once_equals_forward(source, target, preset, changes, cuts):
    model = model_of(preset, **changes)
    full, memory = model(source, target), model.encode(source)
    with torch.inference_mode():
        memory, state = model.encode(source), None
        for begin, end in zip((0, *cuts), (*cuts, 8), strict=True):
            state = state or model.start(memory)
            logits, state = model.prefill(target[:, begin:end], memory, state)
            torch.testing.assert_close(logits, full[:, end - 1])


@every_variant
def test_padding_changes_nothing_and_rows_are_strangers(source, target, preset, changes):
    model = model_of(preset, **changes)
    together = model(source, target)
    for row, n in enumerate(LENGTHS):
        alone = model(source[row : row + 1, :n], target[row : row + 1])
        torch.testing.assert_close(together[row : row + 1], alone)
    longer = torch.nn.functional.pad(source, (0, 4), value=PAD_ID)
    torch.testing.assert_close(model(longer, target), together)


@every_variant
def test_it_is_one_text_that_is_read_from_left_to_right(source, target, preset, changes):
    """What a source token does not see cannot matter to it: it is read as a target is."""
    model = model_of(preset, **changes)
    whole = model(source[:1], target[:1])
    empty = source[:1, :0]
    text = torch.cat((source[:1], target[:1]), dim=1)
    torch.testing.assert_close(model(empty, text)[:, 11:], whole)


@every_variant
def test_no_future_leaks(source, target, preset, changes):
    model = model_of(preset, **changes)
    full = model(source, target, with_source=True)
    for t in range(1, 8):
        other = target.clone()
        other[:, t] = 4 + (other[:, t] - 3) % 9
        found = model(source, other, with_source=True)
        assert torch.equal(found.target[:, :t], full.target[:, :t])
        assert torch.equal(found.source[0], full.source[0])
    for s in range(1, 11):
        other = source.clone()
        other[0, s] = 4 + (other[0, s] - 3) % 9
        assert torch.equal(model(other, target, with_source=True).source[0, :s], full.source[0, :s])


@pytest.mark.parametrize("preset", PRESET)
def test_the_first_token_of_the_source_matters_to_the_last_of_the_target(source, target, preset):
    model = model_of(preset)
    other = source.clone()
    other[:, 0] = 4 + (other[:, 0] - 3) % 9
    changed = (model(other, target) - model(source, target)).abs().amax(dim=-1)
    assert (changed > 1e-9).all()


def test_in_blocks_alone_a_token_does_not_reach_the_next_block(source, target):
    model = model_of("dmca2018", windows=("block",))
    other = source.clone()
    other[:, 0] = 4 + (other[:, 0] - 3) % 9
    assert torch.equal(model(other, target)[:4], model(source, target)[:4])


@pytest.mark.parametrize(("window", "n_keys"), [("local_m", 2), ("block", 3), ("global", 11)])
def test_steps_read_of_a_source_what_their_window_sees(source, target, monkeypatch, window, n_keys):
    """Unless somebody watches: maps have a column for every token."""
    model, seen = model_of("transformer-d", window=window, half_width=2, positions="rotary"), []
    plain = MultiHeadAttention._found
    monkeypatch.setattr(
        MultiHeadAttention, "_found", lambda *args: seen.append(args[2].shape[-2]) or plain(*args)
    )
    memory = model.encode(source)
    seen.clear()
    model.step(target[:, 0], memory, model.start(memory))
    assert {*seen} == {n_keys + 1}
    with watch(model):
        model.step(target[:, 0], memory, model.start(memory))
    assert seen[-1] == 11 + 1


def test_what_was_written_can_be_repeated_and_reordered(source, target):
    model = model_of("dmca2018")
    memory = model.encode(source)
    _, state = model.prefill(target[:, :4], memory, model.start(memory))
    rows = torch.tensor([4, 0, 0, 2])
    logits, _ = model.step(target[rows, 4], memory.select(rows), state.select(rows))
    torch.testing.assert_close(logits, model(source, target)[rows, 4])


def test_a_state_stays_what_it_was_when_others_go_on_from_it(source, target):
    model, other = model_of("dmca2018"), 4 + (target - 3) % 9
    with torch.inference_mode():
        memory = model.encode(source)
        _, state = model.prefill(target[:, :4], memory, model.start(memory))
        _, ahead = model.step(target[:, 4], memory, state)
        _, aside = model.step(other[:, 4], memory, state)
        mixed = torch.cat((target[:, :4], other[:, 4:]), dim=1)
        for text, past in ((target, ahead), (mixed, aside)):
            found, _ = model.step(text[:, 5], memory, past)
            torch.testing.assert_close(found, model(source, text)[:, 5])


@pytest.mark.parametrize("preset", PRESET)
def test_one_beam_is_greedy_and_rows_of_a_batch_do_not_matter(source, preset):
    model, limits = model_of(preset), torch.full((5,), 9)
    found = greedy(model, source, limits=limits)
    beam = beam_search(model, source, limits=limits, n_beams=1)
    assert [one.ids for one in found] == [one[0].ids for one in beam]
    for row, n in enumerate(LENGTHS):
        (alone,) = beam_search(model, source[row : row + 1, :n], limits=limits[:1], n_beams=3)
        (together, *_) = beam_search(model, source, limits=limits, n_beams=3)[row : row + 1]
        assert alone[0].ids == together[0].ids
        assert alone[0].log_prob == pytest.approx(together[0].log_prob)


def test_logits_of_the_source_are_those_of_its_next_tokens(source, target):
    model = model_of("dmca2018")
    both = model(source, target, with_source=True)
    assert isinstance(both, BothLogits)
    assert both.source.shape == (5, 10, 13)
    assert torch.equal(both.target, model(source, target))
    as_target = model(source[:1, :0], source[:1])
    torch.testing.assert_close(both.source[:1], as_target[:, :-1])
    lazy = model(source, target, lazy=True, with_source=True)
    torch.testing.assert_close(lazy.source.states @ lazy.source.weight.T, both.source)


def test_saved_and_loaded_it_says_the_same(source, target, tmp_path):
    model = system("dmca2018", experts=4)
    folder = RunFolder(tmp_path)
    save_model(folder, model.config, model_tensors(model))
    again = load_model(folder)
    assert again.config == model.config
    assert torch.equal(again.eval()(source, target), model(source, target))


def test_layers_have_their_windows_in_turn():
    names = [
        type(layer.self_attention.window).__name__
        for layer in model_of("dmca2018", n_layers=5).decoder.layers
    ]
    assert names == ["BlockWindow", "CompressedWindow"] * 2 + ["BlockWindow"]


# ------------------------------------------------------------------ presets and refusals


def config_of(preset, size=None, **changes):
    settings = ModelSettings(preset=preset, size=size, **changes)
    return resolve(settings, n_source_vocab=50, n_target_vocab=50, shared_vocab=True)


def test_presets_have_the_papers_numbers():
    lengths = {
        name: config_of(name).max_len for name in ("seq2seq-attention", "transformer-ed", *PRESET)
    }
    assert lengths == {
        "seq2seq-attention": 500, "transformer-ed": 500, "transformer-d": 4000, "dmca2018": 11_000,
    }  # fmt: skip
    paper = config_of("dmca2018", "base")
    assert [paper.window_of(layer) for layer in range(5)] == ["block", "compressed"] * 2 + ["block"]
    assert (paper.n_layers, 2 * paper.half_width, paper.d_model) == (5, 256, 512)
    lstm = config_of("seq2seq-attention", "base")
    assert (lstm.n_layers, lstm.d_model) == (2, 128)
    assert list(PRESETS["dmca2018"].sizes) == ["tiny", "small", "base"]


def test_experts_may_stand_in_some_layers():
    changes = {"experts": 128, "expert_layers": [3], "d_expert": 16, "max_len": 7500}
    dense, sparse = config_of("dmca2018"), config_of("dmca2018", **changes)
    with torch.device("meta"):
        more = n_parameters(build(sparse)) - n_parameters(build(dense))
    assert more > 100 * 16 * 2 * 128


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"expert_layers": [3]}, "expert_layers would do nothing"),
        ({"experts": 4, "expert_layers": [6]}, r"expert_layers=\[6\] are beyond n_layers=5"),
        ({"experts": 4, "top_k": 5}, "top_k=5 of experts=4"),
        ({"window": "global"}, "window would do nothing"),
        ({"windows": ["block", "compresed"]}, "unknown window 'compresed'.*compressed"),
        ({"positions": "alibi"}, "window 'compressed' joins the keys"),
        ({"normaliser": "hard"}, "this model looks at its own text only"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused_in_a_line(changes, said):
    with pytest.raises(ConfigError, match=said) as error:
        config_of("dmca2018", **changes)
    assert "\n" not in str(error.value)


def test_two_vocabularies_are_refused():
    for sizes in ((50, 50, False), (50, 60, True)):
        names = ("n_source_vocab", "n_target_vocab", "shared_vocab")
        with pytest.raises(ConfigError, match="need one vocabulary: set text.shared=true"):
            resolve(ModelSettings(preset="transformer-d"), **dict(zip(names, sizes, strict=True)))


def test_a_recurrent_decoder_has_no_heads_to_compress_for():
    with pytest.raises(ConfigError, match="window 'compressed' is for keys of several heads"):
        config_of("luong2015", window="compressed")
    with pytest.raises(ConfigError, match="looks with one head has none"):
        regard.layers.attention.MemoryAttention(4, 4, score="dot", window="compressed")


def test_a_document_that_is_too_long_is_refused_with_both_lengths(source, target):
    model = model_of("dmca2018", max_len=10)
    for read in (lambda: model(source, target), lambda: model.encode(source)):
        with pytest.raises(regard.ShapeError, match="source has 11 tokens.*model.max_len=10"):
            read()
    with pytest.raises(regard.ShapeError, match="target has 11 tokens.*model.max_len=10"):
        model(target, source)
    assert model(source[:, :10], target).shape == (5, 8, 13)


# ------------------------------------------------------------------ memory and watching


class Largest(TorchDispatchMode):
    """Remembers the largest tensor that an operation made inside the block."""

    def __init__(self):
        super().__init__()
        self.numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        for one in made if isinstance(made, (tuple, list)) else [made]:
            if isinstance(one, torch.Tensor):
                self.numel = max(self.numel, one.numel())
        return made


def largest(model, n):
    source, target = torch.full((1, n), 5), torch.full((1, 9), 6)
    with Largest() as seen:
        model(source, target).sum().backward()
    return seen.numel


def test_memory_grows_with_the_length_alone():
    model = system("dmca2018", max_len=9000, half_width=32, n_layers=2)
    short, long = largest(model, 2000), largest(model, 8000)
    assert long <= 4.1 * short
    assert long < 8000 * 8000 / 3 / 8


@pytest.mark.parametrize("preset", PRESET)
def test_watched_it_says_the_same_and_target_rows_can_be_seen_alone(source, target, preset):
    model = model_of(preset)
    plain = model(source, target)
    with watch(model) as views:
        assert torch.equal(model(source, target), plain)
    whole = {where: view.weights() for where, view in views.items()}
    memory = model.encode(source)
    with watch(model) as views:
        model.read(target, memory, model.start(memory))
    for where, view in views.items():
        found = view.weights()
        assert found.shape[-2] == 8
        for row, n in enumerate(LENGTHS):
            wanted = whole[where][row, :, n : n + 8]
            torch.testing.assert_close(found[row], wanted)


@pytest.mark.slow
def test_it_can_be_traced_whole(source, target):
    torch.compiler.reset()
    model = model_of("dmca2018", half_width=32, max_len=400)
    traced = torch.compile(model, fullgraph=True, backend="aot_eager")
    for n in (1, 20):
        given = source[:1].repeat(1, n), target[:1].repeat(1, n)
        torch.testing.assert_close(traced(*given), model(*given))


def test_a_score_by_location_reaches_the_target_behind_a_whole_source(rng):
    model = model_of("transformer-d", score="location", max_len=8)
    ids = torch.randint(4, 9, (1, 8), generator=rng)
    written = torch.randint(4, 9, (1, 5), generator=rng)
    other = written.clone()
    other[0, 1] = 4 + (written[0, 1] - 3) % 5
    assert not torch.equal(model(ids, other)[:, 3:], model(ids, written)[:, 3:])
