"""DETR folders of the package transformers, both ways: names, pictures, and what is refused."""

import json
import re

import numpy as np
import pytest
import torch
from detectors import write_shapes
from fastapi.testclient import TestClient
from safetensors.torch import load_file, save_file

import regard
from regard.checkpoints.run_folder import fill, model_tensors
from regard.core.errors import CheckpointError, ConfigError
from regard.data.pictures import fitted, kept_size
from regard.interop.detr import read_detr
from regard.interop.exporting import export
from regard.interop.importing import import_model
from regard.models.detection import DetectionConfig, Detector
from regard.server.app import make_app
from regard.visual.heat_maps import data_uri

transformers = pytest.importorskip("transformers", reason="the package transformers is not there")
transformers.utils.logging.disable_progress_bar()
processing = pytest.importorskip("transformers.models.detr.image_processing_pil_detr")

WITHIN = 1e-5
NAMES = ("disc", "square", "N/A", "N/A")
RESNETS = {
    "basic": {"embedding_size": 6, "hidden_sizes": [6, 10, 12, 14], "depths": [1, 2, 1, 1]},
    "bottleneck": {"embedding_size": 5, "hidden_sizes": [9, 12, 14, 18], "depths": [2, 1, 1, 2]},
    "short": {
        "embedding_size": 4,
        "hidden_sizes": [8, 11],
        "depths": [1, 2],
        "layer_type": "basic",
    },
}
MEAN, STD = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])


def their_model(resnet="basic", **changes):
    """A DETR of odd sizes with weights that are not those of a fresh model."""
    torch.manual_seed(0)
    kind = {"layer_type": resnet, **RESNETS[resnet]}
    backbone = transformers.ResNetConfig(**kind, out_features=[f"stage{len(kind['depths'])}"])
    sizes = {
        "d_model": 20, "num_queries": 7, "encoder_layers": 2, "decoder_layers": 3,
        "encoder_attention_heads": 5, "decoder_attention_heads": 5, "encoder_ffn_dim": 22,
        "decoder_ffn_dim": 22,
    }  # fmt: skip
    config = transformers.DetrConfig(
        use_timm_backbone=False, use_pretrained_backbone=False, backbone_config=backbone,
        num_labels=len(NAMES), **sizes | changes,
    )  # fmt: skip
    config.id2label = dict(enumerate(NAMES))
    model = transformers.DetrForObjectDetection(config).eval()
    stirred(model.state_dict())
    return model


def stirred(tensors):
    """Numbers with which each query looks somewhere else, so that being the same says something."""
    for name, one in tensors.items():
        if one.ndim == 4:
            torch.nn.init.kaiming_normal_(one, mode="fan_out")
        elif "norm" in name and name.endswith(("weight", "running_var")):
            one.uniform_(0.5, 1.5)
        elif re.search(r"[qk]_proj\.weight|to_[qk]\.weight|quer.*(weight|queries)", name):
            one.normal_(std=1.0)
        else:
            one.normal_(std=0.3)


def saved(model, folder, **says):
    """Their folder, with a preprocessor's file that says so."""
    model.save_pretrained(folder)
    processing.DetrImageProcessorPil(
        **{"size": {"shortest_edge": 70, "longest_edge": 120}, **says}
    ).save_pretrained(folder)
    return folder


def ours_from(imported):
    model = Detector(imported.config).eval()
    fill(model, imported.weights, "here")
    return model


def pixels(rng, height=70, width=101):
    return torch.randint(0, 256, (2, 3, height, width), generator=rng, dtype=torch.uint8)


def normed(x):
    return ((x.permute(0, 2, 3, 1) / 255 - MEAN) / STD).permute(0, 3, 1, 2)


def assert_same(found, expected):
    torch.testing.assert_close(found.logits[-1], expected.logits, atol=WITHIN, rtol=WITHIN)
    torch.testing.assert_close(found.boxes[-1], expected.pred_boxes, atol=WITHIN, rtol=WITHIN)


def renamed(folder, *names):
    """The folder's tensors under other names, each rule a pattern and what stands for it."""
    tensors = load_file(folder / "model.safetensors")
    found = {}
    for name, x in tensors.items():
        for old, new in names:
            name = re.sub(old, new, name)
        found[name] = x
    save_file(found, folder / "model.safetensors")


def says(folder, file="config.json", **facts):
    path = folder / file
    path.write_text(json.dumps({**json.loads(path.read_text()), **facts}))


def less(number):
    return lambda match: number.format(*match.groups(), int(match[1]) + 1)


TIMM = (
    (r"embedder\.embedder\.convolution", "conv1"),
    (r"embedder\.embedder\.normalization", "bn1"),
    (r"encoder\.stages\.(\d)\.layers", less("layer{1}")),
    (r"shortcut\.convolution", "downsample.0"),
    (r"shortcut\.normalization", "downsample.1"),
    (r"layer\.(\d)\.convolution", less("conv{1}")),
    (r"layer\.(\d)\.normalization", less("bn{1}")),
)


@torch.inference_mode()
@pytest.mark.parametrize("resnet", RESNETS)
def test_what_they_wrote_computes_the_same_here(resnet, tmp_path, rng):
    theirs = their_model(resnet)
    ours, x = ours_from(read_detr(saved(theirs, tmp_path))), pixels(rng)
    expected = theirs(normed(x))
    assert_same(ours(x), expected)
    for told in (expected.logits, expected.pred_boxes):  # else the same would say little
        assert told.std(dim=1).mean() > 0.003  # from query to query
        assert (told[0] - told[1]).abs().mean() > 0.003  # from picture to picture


@torch.inference_mode()
@pytest.mark.parametrize("resnet", ["basic", "bottleneck"])
@pytest.mark.parametrize("newer", [False, True])
def test_the_names_of_timm_and_of_newer_modules_are_read(resnet, newer, tmp_path, rng):
    theirs = their_model(resnet)
    folder = saved(theirs, tmp_path)
    renamed(folder, *TIMM)
    named = {"use_timm_backbone": True, "backbone": "resnet50", "backbone_config": None}
    if newer:
        renamed(folder, (r"backbone\.conv_encoder", "backbone"), ("out_proj", "o_proj"))
        renamed(folder, (r"(layers\.\d+)\.(fc\d)", r"\1.mlp.\2"))
        told = {"model_type": "timm_backbone", "backbone": "resnet50", "out_indices": [1, 2, 3, 4]}
        named = {"backbone_config": told}
    says(folder, **named)
    assert not any("stages" in name for name in load_file(folder / "model.safetensors"))
    x = pixels(rng)
    assert_same(ours_from(read_detr(folder))(x), theirs(normed(x)))


def our_run(folder, config, **data):
    """A run folder of ours with weights that are not those of a fresh model."""
    from regard.checkpoints.run_folder import RunFolder, save_model, save_settings
    from regard.tasks.classification import Labels
    from regard.tasks.recipe import recipe_from

    torch.manual_seed(1)
    model = Detector(config).eval()
    stirred(model_tensors(model))
    folder.mkdir()
    asked = config.model_dump(exclude=set(config.FROM_DATA), exclude_none=True)
    if config.encoder != "resnet":
        asked = {name: x for name, x in asked.items() if not name.startswith("resnet_")}
    recipe = {
        "task": "detection",
        "data": {"train": "boxes.tsv", "image_size": config.image_size, **data},
        "model": {"preset": "detr2020", **asked},
        "train": {"max_steps": 1},
    }
    save_settings(RunFolder(folder), recipe_from(recipe).model_dump(mode="json"))
    save_model(RunFolder(folder), config, model_tensors(model))
    Labels(("disc", "square", "ring"), pairs=False).save(folder)
    return regard.load(folder, device="cpu")


OURS = {
    "encoder": "resnet", "queries": "learned", "classes": "softmax", "resnet_block": "bottleneck",
    "resnet_depths": (1, 2, 1), "resnet_widths": (12, 13, 18), "resnet_stem": 7, "d_model": 12,
    "n_heads": 3, "d_ff": 17, "n_layers": 1, "n_decoder_layers": 2, "n_queries": 6, "n_labels": 3,
    "image_size": 50, "bias": False, "activation": "gelu",
}  # fmt: skip


@torch.inference_mode()
def test_what_we_wrote_computes_the_same_there(tmp_path, rng):
    run = our_run(tmp_path / "run", DetectionConfig(**OURS), fit="squash")
    assert export(run, "hf", tmp_path / "hf") == ()
    theirs = transformers.AutoModelForObjectDetection.from_pretrained(tmp_path / "hf").eval()
    processor = processing.DetrImageProcessorPil.from_pretrained(tmp_path / "hf")
    picture = rng_picture(30, 44)
    seen = processor(picture, return_tensors="pt")["pixel_values"]
    assert_same(run.model(run.pixels(run.fitted(picture)[None])), theirs(seen))
    x = pixels(rng, 33, 57)
    assert_same(run.model(x), theirs((x / 255 - 0.5) / 0.5))
    assert theirs.config.id2label == {0: "disc", 1: "square", 2: "ring"}
    import_model(tmp_path / "hf", tmp_path / "back")
    back = regard.load(tmp_path / "back")
    assert back.model.config.model_copy(update={"bias": False}) == run.model.config
    assert_same(back.model(x), theirs((x / 255 - 0.5) / 0.5))


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"encoder": "conv"}, "encoder='conv'"),
        ({"encoder": "patches", "patch_size": 5}, "encoder='patches'"),
        ({"queries": "anchors"}, "queries='anchors'"),
        ({"n_groups": 2}, "n_groups=2"),
        ({"classes": "sigmoid"}, "classes='sigmoid'"),
        ({"norm_first": True}, "norm_first=True"),
        ({"eps": 1e-6}, "eps=1e-06"),
        ({"d_model": 15, "n_heads": 3}, "multiple of 4, not 15"),
    ],
)
def test_models_without_a_counterpart_are_refused_with_the_reason(changes, told, tmp_path):
    run = our_run(tmp_path / "run", DetectionConfig(**OURS | changes))
    with pytest.raises(ConfigError, match=re.escape(told)) as error:
        export(run, "hf", tmp_path / "hf")
    assert str(error.value).startswith("this model cannot be exported: Hugging Face's DETR")
    assert not (tmp_path / "hf").exists()


def test_a_fit_that_they_have_not_is_told(tmp_path):
    run = our_run(tmp_path / "run", DetectionConfig(**OURS), fit="pad")
    (told,) = export(run, "hf", tmp_path / "hf")
    assert "data.fit=pad" in told
    assert "squashed" in told


# ------------------------------------------------------------------ pictures


def rng_picture(height, width, seed=0):
    """Smooth enough that resampling matters and rounding does not."""
    rng = np.random.default_rng(seed)
    return fitted(rng.integers(0, 256, (9, 9, 3), np.uint8), max(height, width))[:height, :width]


PREPARED = {
    "in proportion": {"size": {"shortest_edge": 70, "longest_edge": 120}},
    "squashed": {"size": {"height": 64, "width": 64}},
    "bicubic": {"size": {"shortest_edge": 64, "longest_edge": 90}, "resample": 3},
    "other numbers": {"image_mean": [0.1, 0.2, 0.3], "image_std": [0.4, 0.5, 0.6]},
    "not normalised": {"do_normalize": False},
    "not scaled": {"do_rescale": False},
    "neither": {"do_rescale": False, "do_normalize": False},
    "another factor": {"rescale_factor": 1 / 127.5},
}


@torch.inference_mode()
@pytest.mark.parametrize("how", PREPARED)
@pytest.mark.parametrize("shape", [(50, 80), (90, 40), (70, 70), (33, 400)])
def test_pictures_are_prepared_as_the_folder_says(how, shape, tmp_path):
    theirs = their_model()
    folder = saved(theirs, tmp_path / "hf", **PREPARED[how])
    import_model(folder, tmp_path / "run")
    run = regard.load(tmp_path / "run", device="cpu")
    processor = processing.DetrImageProcessorPil.from_pretrained(folder)
    picture = rng_picture(*shape)
    seen = processor(picture, return_tensors="pt")["pixel_values"]
    ours = run.pixels(run.fitted(picture)[None])
    torch.testing.assert_close(
        run.model.encoder.cells.pixel_norm(ours), seen.float(), atol=1e-4, rtol=1e-5
    )
    expected = theirs(seen.float())
    assert_close_answers(run, run.model(ours), expected)
    target = torch.tensor([shape])
    post = processor.post_process_object_detection(expected, 0.0, target_sizes=target)[0]
    found = run.detect(picture, threshold=0.0)
    order = post["scores"].argsort(descending=True)
    for one, i in zip(found, order, strict=True):
        assert one.score == pytest.approx(post["scores"][i].item(), abs=1e-5)
        sides = torch.tensor([shape[1], shape[0]] * 2)
        box = post["boxes"][i].clamp(min=torch.zeros(4), max=sides).tolist()
        assert one.box == pytest.approx(box, abs=0.06)


def assert_close_answers(run, found, expected):
    """Bytes that are not scaled are 255 times as large, and so is what rounding makes of them."""
    within = WITHIN if max(run.model.config.pixel_std) > 0.02 else 1e-3
    torch.testing.assert_close(found.logits[-1], expected.logits, atol=within, rtol=within)
    torch.testing.assert_close(found.boxes[-1], expected.pred_boxes, atol=within, rtol=within)


def test_sizes_are_those_of_the_original():
    from transformers.image_transforms import get_size_with_aspect_ratio

    rng = np.random.default_rng(0)
    for _ in range(3000):
        shape = tuple(rng.integers(1, 900, 2).tolist())
        shortest = int(rng.integers(4, 300))
        longest = shortest + int(rng.integers(0, 400))
        expected = get_size_with_aspect_ratio(shape, shortest, longest)
        if min(expected) > 0:  # theirs may be nothing
            assert kept_size(*shape, shortest, longest) == expected
    assert kept_size(1, 20_000, 800, 1333) == (1, 1333)


def test_an_imported_folder_is_a_run_that_detects_explains_and_is_scored(tmp_path):
    folder = saved(their_model(), tmp_path / "hf")
    assert import_model(folder, tmp_path / "run") == ()
    run = regard.load(tmp_path / "run", device="cpu")
    assert run.labels.names == ("disc", "square", "N/A 2", "N/A 3")
    pictures = [rng_picture(50, 80), rng_picture(80, 50), rng_picture(50, 80, 1), rng_picture(9, 9)]
    alone = [run.detect(one, threshold=0.0) for one in pictures]
    for one, other in zip(run.detect(pictures, threshold=0.0), alone, strict=True):
        assert [x.label for x in one] == [x.label for x in other]
        assert [x.score for x in one] == pytest.approx([x.score for x in other], abs=1e-5)
    look = run.explain(pictures[0], threshold=0.0)  # 70 × 112 pixels: 3 × 4 cells
    assert look.weights("encoder.self", 1).shape == (5, 12, 12)
    assert look.weights("decoder.cross", 2).shape == (5, 7, 12)
    hidden = run.explain(pictures[0], [{"kind": "occlude", "row": 2, "column": 3}])
    assert not np.array_equal(hidden.picture, look.picture)
    with pytest.raises(ConfigError, match="columns 0 to 3, not 4"):
        run.explain(pictures[0], [{"kind": "occlude", "row": 0, "column": 4}])
    for name in ("look.svg", "look.html", "look.json"):
        look.save(tmp_path / name)
    shapes = tmp_path / "shapes"
    shapes.mkdir()
    write_shapes(shapes)
    from regard.tasks.base import TASKS

    found = TASKS["detection"].score_file(run, shapes / "boxes.tsv")
    assert found.scores["n"] == 64
    assert 0 <= found.scores["ap"] <= found.scores["ap50"] <= 1


def test_the_server_detects_and_explains_with_it(tmp_path):
    import_model(saved(their_model(), tmp_path / "hf"), tmp_path / "run")
    run = regard.load(tmp_path / "run", device="cpu")
    client = TestClient(make_app(run), base_url="http://127.0.0.1:8000")
    picture = rng_picture(50, 80)
    uri = data_uri(picture)
    found = client.post("/api/detect", json={"image": uri, "threshold": 0.0}).json()
    assert (found["width"], found["height"]) == (80, 50)
    expected = [list(one.box) for one in run.detect(picture, threshold=0.0)]
    assert [one["box"] for one in found["objects"]] == expected
    look = client.post("/api/explain", json={"source": uri}).json()
    assert look["sides"]["source"]["grid"] == [3, 4]


def test_heads_are_measured_in_pictures_of_many_sizes(tmp_path):
    from regard.data.picture_records import BoxedPicture
    from regard.data.pictures import ArrayPicture
    from regard.runs.heads import groups

    import_model(saved(their_model(), tmp_path / "hf"), tmp_path / "run")
    run = regard.load(tmp_path / "run", device="cpu")
    whole = np.array([[0.0, 0.0, 1.0, 1.0]], np.float32)
    corner = np.array([[0.0, 0.0, 0.4, 0.5]], np.float32)
    shapes = [(50, 80), (80, 50), (60, 60)]

    def examples(box):
        for i, (height, width) in enumerate(shapes):
            seen = ArrayPicture(rng_picture(height, width, i), "here")
            yield BoxedPicture(picture=seen, boxes=box, labels=("disc",), aspect=width / height)

    assert {*run.pointing([*examples(whole)])["pointing"].values()} == {1.0}
    all_heads = run.pointing([*examples(corner)])["pointing"]
    each = [run.pointing([one])["pointing"] for one in examples(corner)]
    for head, share in all_heads.items():
        assert share == pytest.approx(np.mean([one[head] for one in each]))
    assert len({*all_heads.values()}) > 1
    names = {
        group.name for group in groups(run.model, run.readings([*examples(whole)]), run.device)
    }
    assert names == {"encoder.self", "decoder.self", "decoder.cross"}


def test_training_asks_for_squares(tmp_path):
    from regard.recipes.recipe import load_recipe
    from regard.runs.train import train

    shapes = tmp_path / "shapes"
    shapes.mkdir()
    write_shapes(shapes)
    import_model(saved(their_model(), tmp_path / "hf"), tmp_path / "run")
    changes = [f"data.folder={shapes}", "data.train=boxes.tsv", "train.max_steps=1"]
    recipe = load_recipe(str(tmp_path / "run" / "config.yaml"), changes)
    with pytest.raises(ConfigError, match=r"data.fit=keep .* pad, crop or squash"):
        train(recipe, tmp_path / "more")
    squares = [*changes, "data.fit=pad", "data.longest_edge=null", "train.batch_size=4"]
    train(load_recipe(str(tmp_path / "run" / "config.yaml"), squares), tmp_path / "more")
    assert regard.load(tmp_path / "more").model.config.encoder == "resnet"


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({"architectures": ["DetrForSegmentation"]}, "architectures="),
        ({"position_embedding_type": "learned"}, "position_embedding_type='learned'"),
        ({"auxiliary_loss": True}, "auxiliary_loss=True"),
        ({"dilation": True}, "dilation=True"),
        ({"decoder_attention_heads": 4}, "decoder_attention_heads=4"),
        ({"decoder_ffn_dim": 23}, "decoder_ffn_dim=23"),
        ({"backbone_config": {"model_type": "swin"}}, "backbone_config.model_type='swin'"),
        (
            {"backbone_config": {"model_type": "timm_backbone", "backbone": "resnet50d"}},
            "backbone='resnet50d'",
        ),
        ({"encoder_layers": 10**9}, "1000000000 layers"),
        ({"decoder_layers": 10**9}, "1000000005 blocks and layers"),
        ({"decoder_layers": 4}, "missing model.decoder.layers.3."),
        ({"num_queries": 8}, "n_queries=8"),
        ({"d_model": 21}, "d_model=21 is not a multiple"),
    ],
)
def test_folders_without_a_counterpart_are_refused(facts, told, tmp_path):
    folder = saved(their_model(), tmp_path / "hf")
    says(folder, **facts)
    with pytest.raises(CheckpointError, match=re.escape(told)) as error:
        import_model(folder, tmp_path / "run")
    assert "\n" not in str(error.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("facts", "told"),
    [
        ({"size": {"max_height": 70, "max_width": 90}}, "size={'max_height'"),
        ({"size": {"height": 70, "width": 90}}, "size={'height': 70"),
        ({"do_resize": False}, "do_resize=false"),
        ({"pad_size": {"height": 70, "width": 90}}, "pad_size="),
        ({"resample": 0}, "resample=0"),
        ({"image_std": [0.1, 0.0, 0.1]}, "image_std=[0.1, 0.0, 0.1]"),
        ({"image_mean": [0.1, 0.2]}, "image_mean=[0.1, 0.2]"),
        ({"rescale_factor": 0}, "rescale_factor=0"),
        ({"do_flip_channel_order": True}, "do_flip_channel_order=true"),
    ],
)
def test_pictures_that_cannot_be_prepared_so_are_refused(facts, told, tmp_path):
    folder = saved(their_model(), tmp_path / "hf")
    says(folder, "preprocessor_config.json", **facts)
    with pytest.raises(CheckpointError, match=re.escape(told)) as error:
        import_model(folder, tmp_path / "run")
    assert "preprocessor_config.json prepares pictures as we cannot" in str(error.value)


def test_sizes_as_they_were_written_down_before(tmp_path):
    folder = saved(their_model(), tmp_path / "hf")
    says(folder, "preprocessor_config.json", size=75, max_size=99)
    assert dict(read_detr(folder).data) == {
        "image_size": 75, "fit": "keep", "longest_edge": 99, "resample": "bilinear"
    }  # fmt: skip
    (folder / "preprocessor_config.json").unlink()
    found = read_detr(folder)
    assert (found.data["image_size"], found.data["longest_edge"]) == (800, 1333)
    assert found.notes == (
        "it has no preprocessor_config.json: pictures are prepared as DETR has it",
    )
