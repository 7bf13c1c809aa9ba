"""Each stage of a story is what the next one computes from."""

import numpy as np
import pytest
import torch
from systems import system

from regard.core.errors import ConfigError
from regard.inspection.edits import Ablate, NoPositions, edited
from regard.inspection.records import recorded_call, recorded_pair
from regard.inspection.story import Asked, as_json, heard, told
from regard.models.decoder import LanguageModel
from regard.models.detection import DetectionConfig, Detector
from regard.models.encoder import Encoder
from regard.models.settings import DecoderConfig, EncoderConfig
from regard.models.vision import VisionConfig, VisionTransformer

SOURCE = torch.tensor([[5, 6, 7, 4, 9, 2]])
TARGET = torch.tensor([[1, 8, 9, 10, 4]])
TRANSFORMERS = [
    {},
    {"norm_first": True},
    {"positions": "learned"},
    {"positions": "index"},
    {"positions": "rotary"},
    {"score": "additive"},
    {"cross_after": "feed_forward"},
    {"experts": 4},
    {"bias": False},
]
SIZES = {"d_model": 12, "n_heads": 3, "d_ff": 20, "n_layers": 2, "dropout": 0.0}


def close(got, expected):
    np.testing.assert_allclose(got, expected, atol=2e-5, rtol=1e-4)


def heard_run(model, *read):
    with heard(model) as calls:
        output, records = recorded_call(model, *read)
    return calls, output, records


def vector(tensor):
    return tensor.detach().float().numpy()


every_transformer = pytest.mark.parametrize("changes", TRANSFORMERS, ids=str)
places = pytest.mark.parametrize("name", ["encoder.self", "decoder.self", "decoder.cross"])


def story_at(model, name, *, layer=1, row=3, read=(SOURCE, TARGET)):
    calls, output, records = heard_run(model, *read)
    return told(model, calls, Asked(name, layer, row)), output, records[name][layer]


@every_transformer
@places
@torch.no_grad()
def test_scores_weights_and_values_lead_to_what_the_heads_brought_home(changes, name):
    model = system("transformer", **changes)
    story, _, record = story_at(model, name)
    t = 3
    if record.scale is not None:
        close(record.scores[:, t] * record.scale, record.scaled[:, t])
    seen = np.where(record.visible[:, t], record.scaled[:, t], -np.inf)
    powers = np.exp(seen - seen.max(axis=-1, keepdims=True))
    close(powers / powers.sum(axis=-1, keepdims=True), record.weights[:, t])
    close(np.einsum("hs,hsv->hv", record.weights[:, t], record.v), story.heads)


@every_transformer
@places
@torch.no_grad()
def test_the_stream_passes_from_stage_to_stage(changes, name):
    model = system("transformer", **changes)
    story, _, _ = story_at(model, name)
    first, last = story.sublayers[0], story.sublayers[-1]
    close(story.stream[1], first.enters)  # layer 1 begins with what layer 0 left
    for one, following in zip(story.sublayers, story.sublayers[1:], strict=False):
        close(one.leaves, following.enters)
    for one in story.sublayers:
        close(one.enters + one.added, one.sum)
    close(last.leaves, story.stream[-1])
    kind = name.rpartition(".")[2]
    mine = next(one for one in story.sublayers if one.kind == kind)
    total = story.projected.sum(axis=0) + (0 if story.bias is None else story.bias)
    close(total, mine.added)


@every_transformer
@torch.no_grad()
def test_norms_stand_where_the_model_has_them(changes):
    model = system("transformer", **changes)
    story, _, _ = story_at(model, "decoder.cross", layer=0)
    block = model.decoder.layers[0]
    around = {
        "self": block.around_self,
        "cross": block.around_cross,
        "feed_forward": block.around_feed_forward,
    }
    for one in story.sublayers:
        norm = around[one.kind].norm
        before, after = (one.enters, one.given) if story.norm_first else (one.sum, one.leaves)
        close(vector(norm(torch.tensor(before))), after)


@torch.no_grad()
@pytest.mark.parametrize("norm_first", [True, False])
def test_queries_are_made_of_what_the_sub_layer_was_given(norm_first):
    model = system("transformer", norm_first=norm_first)
    story, _, record = story_at(model, "decoder.cross", layer=1, row=2)
    (cross,) = (one for one in story.sublayers if one.kind == "cross")
    attention = model.decoder.layers[1].cross_attention
    close(vector(attention.to_q(torch.tensor(cross.given))).reshape(3, -1), record.q[:, 2])


@every_transformer
@torch.no_grad()
def test_the_feed_forward_is_told_from_inside_unless_experts_stand_there(changes):
    model = system("transformer", **changes)
    story, _, _ = story_at(model, "encoder.self")
    (fed,) = (one for one in story.sublayers if one.kind == "feed_forward")
    layer = model.encoder.layers[1].feed_forward
    if "experts" in changes:
        assert story.inner is None
        assert story.active is None
        return
    close(np.maximum(story.inner, 0), story.active)
    close(vector(layer.outer(torch.tensor(story.active))), fed.added)


@every_transformer
@places
@torch.no_grad()
def test_a_token_and_its_position_become_what_the_first_layer_reads(changes, name):
    model = system("transformer", **changes)
    story, _, _ = story_at(model, name, layer=0)
    embedded, config = story.embedded, model.config
    stack, ids = (model.encoder, SOURCE) if name == "encoder.self" else (model.decoder, TARGET)
    scale = config.d_tokens**0.5
    close(embedded.token, scale * vector(stack.embedding.tokens.weight[ids[0, 3]]))
    assert embedded.kind == config.positions
    if embedded.code.shape == embedded.token.shape:
        close(embedded.token + embedded.code, embedded.joined)
    else:
        close(np.concatenate((embedded.token, embedded.code)), embedded.joined)
    close(vector(stack.embedding.to_model(torch.tensor(embedded.joined))), embedded.vector)
    close(embedded.vector, story.stream[0])
    close(embedded.codes[3], embedded.code)
    apart = np.linalg.norm(embedded.codes[1] - embedded.codes[4])
    close(embedded.distances[1, 4], apart)


@every_transformer
@torch.no_grad()
def test_the_last_states_give_the_logits_of_the_run(changes):
    model = system("transformer", **changes)
    story, logits, _ = story_at(model, "decoder.cross", row=2)
    close(story.logits, vector(logits[0, 2]))
    close(vector(model.logits(torch.tensor(story.states))), story.logits)
    source, _, _ = story_at(model, "encoder.self")
    assert source.logits is None  # nothing is read off a source's position


@torch.no_grad()
def test_a_language_model_an_encoder_and_a_picture_have_stories_of_their_own():
    torch.manual_seed(1)
    language = LanguageModel(DecoderConfig(n_vocab=13, max_len=24, **SIZES)).eval()
    story, logits, _ = story_at(language, "decoder.self", read=(SOURCE,))
    close(story.logits, vector(logits[0, 3]))
    close(vector(language.logits(torch.tensor(story.states))), story.logits)
    encoder = Encoder(
        EncoderConfig(n_vocab=13, max_len=24, head="classify", n_labels=3, **SIZES)
    ).eval()
    story, labels, _ = story_at(encoder, "encoder.self", row=0, read=(SOURCE,))
    close(story.logits, vector(labels[0]))
    close(story.embedded.vector, story.stream[0])
    picture = VisionTransformer(
        VisionConfig(image_size=16, patch_size=8, n_labels=3, positions="learned", **SIZES)
    ).eval()
    story, labels, _ = story_at(picture, "encoder.self", row=0, read=(torch.rand(1, 3, 16, 16),))
    close(story.logits, vector(labels[0]))
    close(story.embedded.codes, vector(picture.encoder.embedding.positions.table))
    close(story.embedded.token + story.embedded.code, story.embedded.vector)


@torch.no_grad()
def test_codes_are_told_as_small_as_the_model_makes_them():
    sizes = {"n_vocab": 13, "max_len": 24, "positions": "sinusoidal", **SIZES}
    encoder = Encoder(EncoderConfig(**sizes)).eval()
    story, _, _ = story_at(encoder, "encoder.self", read=(SOURCE,))
    table = vector(encoder.embedding.positions.table[: SOURCE.shape[1]])
    close(story.embedded.codes, table / encoder.embedding.shrink)
    assert encoder.embedding.shrink > 1


@pytest.mark.parametrize("preset", ["luong2015", "bahdanau2015", "cs224n2019", "gnmt2016"])
@torch.no_grad()
def test_a_recurrent_decoder_is_told_by_its_states(preset):
    model = system(preset)
    calls, logits, _ = heard_run(model, SOURCE, TARGET)
    story = told(model, calls, Asked("decoder.cross", 0, 2))
    close(story.logits, vector(logits[0, 2]))
    close(vector(model.logits(torch.tensor(story.output))), story.logits)
    assert story.read.shape[0] == SOURCE.shape[1]


@torch.no_grad()
def test_a_story_under_edits_is_that_of_the_edited_model():
    model = system("transformer")
    plain, _, _ = story_at(model, "decoder.cross", layer=0)
    with heard(model) as calls, edited(model, [Ablate("decoder.cross", 0, 1), NoPositions()]):
        recorded_call(model, SOURCE, TARGET)
    story = told(model, calls, Asked("decoder.cross", 0, 3))
    assert not story.heads[1].any()
    assert not story.embedded.codes.any()
    assert plain.heads[1].any()
    assert plain.embedded.codes.any()


@torch.no_grad()
def test_listening_changes_nothing_and_leaves_nothing():
    model = system("transformer")
    expected = model(SOURCE, TARGET)
    with heard(model):
        assert torch.equal(model(SOURCE, TARGET), expected)
    assert not any(module._forward_hooks for module in model.modules())


@torch.no_grad()
def test_what_cannot_be_told_is_refused_in_words():
    model = system("transformer")
    calls, _, _ = heard_run(model, SOURCE, TARGET)
    with pytest.raises(ConfigError, match="no attention 'decoder.cross' with a layer 7"):
        told(model, calls, Asked("decoder.cross", 7, 0))
    with pytest.raises(ConfigError, match="cannot be told"):
        told(model, calls, Asked("decoder.cross", 0, 99))
    tapes = system("cheng2016")
    calls, _, _ = heard_run(tapes, SOURCE, TARGET)
    assert told(tapes, calls, Asked("decoder.cross", 0, 2)).read is None  # a tape is no list
    with pytest.raises(ConfigError, match="cannot be told"):
        told(tapes, calls, Asked("encoder.self", 0, 2))
    other = system("luong2015")
    calls, _, _ = heard_run(other, SOURCE, TARGET)
    with pytest.raises(ConfigError, match="cannot be told"):
        told(other, calls, Asked("decoder.cross", 0, 99))


@torch.no_grad()
def test_json_has_plain_numbers_and_no_logits():
    story, _, _ = story_at(system("transformer"), "decoder.cross")
    plain = as_json(story)
    assert "logits" not in plain
    assert isinstance(plain["sublayers"][0]["enters"][0], float)
    assert plain["norm_first"] is False


# ------------------------------------------------------------------ one text, and windows


def read_apart(model, name, layer, row, head=0, edits=()):
    """The story of a model that reads source and target as one text, as a look at it reads them."""
    with heard(model) as calls, edited(model, edits):
        logits, records = recorded_pair(model, SOURCE, TARGET)
    with edited(model, edits):
        story = told(model, calls, Asked(name, layer, row, head))
    return story, logits, records[name][layer]


@pytest.mark.parametrize("changes", [{}, {"norm_first": False}], ids=str)
@pytest.mark.parametrize("edits", [[], [NoPositions(), Ablate("decoder.self", 1, 2)]], ids=len)
@torch.no_grad()
def test_a_source_and_its_target_as_one_text_have_the_story_of_the_look(changes, edits):
    model = system("transformer-d", **changes)
    for row in (0, 4):
        story, logits, record = read_apart(model, "decoder.self", 1, row, edits=edits)
        close(story.heads, record.outputs[:, row])
        close(story.logits, vector(logits[row]))
        close(vector(model.logits(torch.tensor(story.states))), story.logits)
        assert story.embedded.position == SOURCE.shape[1] + row
        assert story.window is None
        assert story.place is None
        for one, following in zip(story.sublayers, story.sublayers[1:], strict=False):
            close(one.leaves, following.enters)
        close(story.stream[2], story.sublayers[-1].leaves)


@torch.no_grad()
def test_layers_of_local_blocks_and_of_compressed_memory_are_told_in_turn():
    model = system("dmca2018")
    blocks, _, record = read_apart(model, "decoder.self", 1, 3)
    assert (blocks.window.kind, blocks.window.width, blocks.layer) == ("block", 4, 2)
    assert record.visible[0, 3].sum() <= 4
    story, logits, record = read_apart(model, "decoder.self.compressed", 0, 3, head=2)
    assert (story.window.kind, story.window.width, story.layer) == ("compressed", 3, 1)
    close(story.heads, record.outputs[:, 3])
    close(story.logits, vector(logits[3]))


@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
@pytest.mark.parametrize("head", [0, 2])
@torch.no_grad()
def test_the_key_of_a_slot_is_the_sum_of_what_its_positions_add(head, positions):
    model = system("dmca2018", positions=positions)
    story, _, record = read_apart(model, "decoder.self.compressed", 0, 4, head=head)
    slots = record.k[head][1:]  # behind the null
    whole = story.window.parts[: 3 * len(slots)].reshape(len(slots), 3, -1)
    close(whole.sum(axis=1), slots)
    assert story.window.keys.shape == (SOURCE.shape[1] + TARGET.shape[1], record.k.shape[-1])


@torch.no_grad()
def test_a_window_is_told_of_any_transformer_that_has_one():
    model = system("transformer", window="local_m")
    story, _, _ = story_at(model, "encoder.self")
    assert (story.window.kind, story.window.width) == ("local_m", 5)
    assert story_at(system("transformer"), "encoder.self")[0].window is None
    slots = system("transformer", window="compressed")
    across, _, record = story_at(slots, "decoder.cross.compressed")
    close(across.window.parts[:3].sum(axis=0), record.k[0][1])


@pytest.mark.parametrize("queries", ["anchors", "learned"])
@torch.no_grad()
def test_where_a_cell_or_a_query_looks_joins_its_query_in_every_layer(queries):
    sizes = {"image_size": 32, "n_queries": 5, "n_labels": 2, "n_decoder_layers": 2, **SIZES}
    torch.manual_seed(2)
    model = Detector(DetectionConfig(**{**sizes, "d_model": 24}, queries=queries)).eval()
    pixels = torch.rand(1, 3, 32, 32)
    for name, row in (("encoder.self", 3), ("decoder.self", 4), ("decoder.cross", 2)):
        story, _, record = story_at(model, name, row=row, read=(pixels,))
        close(story.heads, record.outputs[:, row])
        kind = name.rpartition(".")[2]
        own = next(one for one in story.sublayers if one.kind == kind)
        attention = getattr(
            model.get_submodule(name.partition(".")[0]).layers[1], f"{kind}_attention"
        )
        asked = attention.to_q(torch.tensor(own.given + story.place))
        close(vector(asked), record.q[:, row].reshape(-1))
        close(story.stream[1], story.sublayers[0].enters)
        assert story.embedded is None
