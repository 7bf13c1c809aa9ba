import re
import xml.etree.ElementTree as ET
from collections import Counter

import pytest
from torch import nn

from regard.models.bounds import skeleton
from regard.models.presets import FAMILIES, PRESETS, n_parameters
from regard.tasks.drawing import DRAWINGS, draw, drawing_of
from regard.visual.drawing import Frame, blocks_in, drawing_text
from regard.visual.drawing_svg import drawing_svg

SVG = "{http://www.w3.org/2000/svg}"
SIZES = {
    "n_vocab": 31,
    "n_source_vocab": 29,
    "n_target_vocab": 29,
    "shared_vocab": True,
    "n_labels": 5,
}
CHANGED = [
    ("transformer", {"shared_vocab": False, "n_target_vocab": 37, "tied_output": False}),
    ("transformer", {"norm_first": True, "output_bias": True, "cross_after": "feed_forward"}),
    ("transformer", {"experts": 3, "expert_layers": (2,), "join": "concat", "n_kv_heads": 2}),
    ("bahdanau2015", {"tied_output": True, "cell": "tanh"}),
    ("luong2015", {"window": "local_p", "bidirectional": True, "tied_output": True}),
    ("cheng2016", {"fusion": "shallow", "tied_output": True}),
    ("gnmt2016", {"n_decoder_layers": 1, "n_layers": 1}),
    ("deep-att2016", {"peepholes": True, "tied_output": True}),
    ("bytenet2016", {"block": "multiplicative"}),
    ("convs2s2017", {"top_layers": ((48, 3), (64, 1))}),
    ("bert", {"head": "masked", "n_labels": None}),
    ("bert", {"head": "spans", "n_labels": None}),
    ("bert", {"head": "none", "n_labels": None, "positions": "rotary", "norm_first": True}),
    ("bert", {"pooling": "mean"}),
    ("gpt", {"tied": False, "activation": "swiglu"}),
    ("detr2020", {"encoder": "resnet", "queries": "learned", "classes": "softmax"}),
    ("show-attend-tell2015", {"concepts": 0.5, "query": "current", "n_layers": 2}),
    ("transformer-captioner", {"encoder": "stem", "concepts": 1.0}),
]


def config_of(preset, **changes):
    family = FAMILIES[PRESETS[preset].family].config
    size = next(iter(PRESETS[preset].sizes.values()))
    data = {name: value for name, value in SIZES.items() if name in family.model_fields}
    if "head" in family.model_fields:
        data["head"] = "classify"
    return family(**{**data, **size, **changes})


def texts(drawing):
    return [one.text for one in ET.fromstring(drawing_svg(drawing)).iter(f"{SVG}text")]


def test_every_family_has_a_drawing():
    assert {*FAMILIES} <= {*DRAWINGS}


@pytest.mark.parametrize(
    ("preset", "changes"), [*((name, {}) for name in PRESETS), *CHANGED], ids=str
)
def test_counts_add_up_to_the_models_parameters_and_no_part_is_left_over(preset, changes):
    config = config_of(preset, **changes)
    drawing = draw(config, preset)
    assert drawing.count == n_parameters(skeleton(config))
    assert "Also" not in [column.title for column in drawing.columns]


@pytest.mark.parametrize("preset", ["transformer", "bahdanau2015", "dcn2018", "dmca2018"])
def test_what_is_printed_adds_up_too(preset):
    drawing = draw(config_of(preset), preset)
    columns = [
        int(line.split()[-1].replace(",", ""))
        for line in drawing_text(drawing).splitlines()
        if line.startswith(("├─", "└─"))
    ]
    assert sum(columns) == drawing.count
    assert f"{preset}: {drawing.count:,} parameters" in texts(drawing)


def test_lines_that_are_drawn_end_at_blocks_that_are_there():
    for preset in PRESETS:
        drawing = draw(config_of(preset), preset)
        keys = Counter(block.key for block in blocks_in(drawing.columns))
        assert set(keys.values()) == {1}
        ends = {end for link in drawing.links for end in (link.start, link.end)}
        assert ends | {end for s in drawing.skips for end in (s.first, s.end)} <= {*keys}


def test_every_decoder_layer_of_a_transformer_reads_the_encoder():
    drawing = draw(config_of("transformer", norm_first=True), "transformer")
    assert [(one.start, one.end) for one in drawing.links] == [
        ("encoder.norm", "decoder.layers.0.cross_attention")
    ]
    assert len([s for s in drawing.skips if s.first.startswith("decoder")]) == 3


def test_layers_that_are_alike_are_drawn_once_and_those_that_take_turns_together():
    (column,) = draw(config_of("dmca2018"), "dmca2018").columns
    frames = [item for item in column.items if isinstance(item, Frame)]
    assert [frame.caption for frame in frames] == ["3 × layers 0, 2, 4", "2 × layers 1, 3"]


def test_a_matrix_that_is_used_twice_is_counted_once_and_said_to_be_shared():
    decoder = draw(config_of("transformer"), "transformer").columns[1]
    embedding, output = decoder.items[1], decoder.items[-2]
    assert (embedding.count, embedding.shared) == (0, True)
    assert (output.count, output.shared) == (0, True)
    assert "the embedding's matrix" in output.details


def test_shapes_are_those_of_the_modules():
    shown = texts(draw(config_of("transformer", d_model=24, n_heads=3, d_ff=56), "t"))
    assert "3 heads of 8, scaled_dot" in shown
    assert "24 → 56 → 24" in shown
    assert "24 → 29" in shown
    told = texts(draw(config_of("bahdanau2015", d_model=24), "b"))
    assert {"W_q 24 × 24", "W_k 48 × 24", "24 → 24, both ways"} <= {*told}


def test_boxes_stay_inside_the_picture_and_do_not_overlap():
    for preset in PRESETS:
        root = ET.fromstring(drawing_svg(draw(config_of(preset), preset)))
        width, height = map(float, root.get("viewBox").split()[2:])
        boxes = [
            [float(rect.get(name)) for name in ("x", "y", "width", "height")]
            for rect in root.iter(f"{SVG}rect")
            if rect.get("stroke-width") == "1.4"
        ]
        assert all(x >= 0 and x + w <= width and y >= 0 and y + h <= height for x, y, w, h in boxes)
        for i, (x, y, _, h) in enumerate(boxes):
            beside = [box for box in boxes[i + 1 :] if box[0] == x]
            assert all(y >= other[1] + other[3] or other[1] >= y + h for other in beside)


def test_who_does_not_see_the_picture_is_told_what_it_shows():
    root = ET.fromstring(drawing_svg(draw(config_of("luong2015"), "luong2015")))
    assert root.get("role") == "img"
    assert root.find(f"{SVG}title").text.startswith("luong2015: ")
    told = root.find(f"{SVG}desc").text
    assert "Encoder: source, then embedding, then LSTM" in told
    assert re.search(r"Lines from .*LSTM to attention to the source", told)


def test_a_family_that_nobody_drew_is_drawn_as_its_modules():
    class Config:
        family = "somebody else's"

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.config = Config()
            self.first, self.act, self.second = nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2)
            self.scale = nn.Parameter(nn.Linear(1, 7).weight.detach())

    drawing = drawing_of(Model(), "mine")
    assert [block.title for block in blocks_in(drawing.columns)] == ["first", "second", "scale"]
    assert drawing.count == n_parameters(Model())
