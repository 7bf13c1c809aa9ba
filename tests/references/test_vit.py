"""Our Vision Transformer against that of the package transformers, both ways; other names; ONNX."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import regard
from regard.checkpoints.run_folder import fill
from regard.core.errors import CheckpointError, ConfigError
from regard.data.picture_corpora import idx_rows
from regard.data.settings import DataSettings
from regard.interop.exporting import export
from regard.interop.importing import import_model
from regard.interop.onnx import write_onnx_vision
from regard.interop.vit import read_timm, read_vit, write_vit
from regard.models.vision import VisionConfig, VisionTransformer

transformers = pytest.importorskip("transformers", reason="the package transformers is not there")
transformers.utils.logging.disable_progress_bar()

WITHIN = 1e-5
SIZES = {
    "hidden_size": 15,
    "num_hidden_layers": 2,
    "num_attention_heads": 5,
    "intermediate_size": 22,
    "image_size": 21,
    "patch_size": 7,
    "num_labels": 3,
    "initializer_range": 0.5,
}
NAMES = ("ape", "bee", "cow")
DATA_SETTINGS = DataSettings(train="train")
DATA = Path(__file__).parents[3] / "shared" / "data"
CHECKPOINT = DATA / "checkpoints" / "vit-mnist" / "vit_mnist_gpu.pt"


@pytest.fixture
def theirs(tmp_path):
    torch.manual_seed(0)
    config = transformers.ViTConfig(**SIZES, hidden_act="gelu_new")
    config.id2label = dict(enumerate(NAMES))
    model = transformers.ViTForImageClassification(config).eval()
    model.save_pretrained(tmp_path / "hf")
    return model


def ours_from(imported):
    model = VisionTransformer(imported.config).eval()
    fill(model, imported.weights, "here")
    return model


def pixels(rng, size=21):
    return torch.randint(0, 256, (4, 3, size, size), generator=rng, dtype=torch.uint8)


def normed(x):
    return (x.float() / 255 - 0.5) / 0.5


@torch.inference_mode()
def test_what_they_wrote_computes_the_same_here(theirs, tmp_path, rng):
    ours, x = ours_from(read_vit(tmp_path / "hf")), pixels(rng)
    torch.testing.assert_close(
        ours(x), theirs(pixel_values=normed(x)).logits, atol=WITHIN, rtol=WITHIN
    )


@torch.inference_mode()
def test_what_we_wrote_computes_the_same_there(tmp_path, rng):
    sizes = {"image_size": 10, "patch_size": 5, "d_model": 12, "n_heads": 3, "d_ff": 17}
    config = VisionConfig(**sizes, n_layers=2, n_labels=3, dropout=0.0, bias=False)
    ours = VisionTransformer(config).eval()
    for parameter in ours.parameters():
        torch.nn.init.normal_(parameter, std=0.4)
    write_vit(config, dict(ours.named_parameters()), tmp_path, NAMES, DATA_SETTINGS)
    theirs = transformers.AutoModelForImageClassification.from_pretrained(tmp_path).eval()
    x = pixels(rng, 10)
    torch.testing.assert_close(
        theirs(pixel_values=normed(x)).logits, ours(x), atol=WITHIN, rtol=WITHIN
    )
    assert theirs.config.id2label == dict(enumerate(NAMES))
    with pytest.raises(ConfigError, match="pooling='mean'"):
        write_vit(config.model_copy(update={"pooling": "mean"}), {}, tmp_path, NAMES, DATA_SETTINGS)


@torch.inference_mode()
def test_the_names_of_timm_are_read(theirs, tmp_path, rng):
    theirs = transformers.ViTForImageClassification(
        transformers.ViTConfig(**SIZES, layer_norm_eps=1e-6)
    ).eval()
    theirs.save_pretrained(tmp_path / "plain")
    from safetensors.torch import load_file

    found = load_file(tmp_path / "plain" / "model.safetensors")
    named = {
        "cls_token": found["vit.embeddings.cls_token"],
        "pos_embed": found["vit.embeddings.position_embeddings"],
    }
    for kind in ("weight", "bias"):
        named[f"patch_embed.proj.{kind}"] = found[
            f"vit.embeddings.patch_embeddings.projection.{kind}"
        ]
        named[f"norm.{kind}"] = found[f"vit.layernorm.{kind}"]
        named[f"head.{kind}"] = found[f"classifier.{kind}"]
        for i in range(SIZES["num_hidden_layers"]):
            layer, block = f"vit.encoder.layer.{i}", f"blocks.{i}"
            parts = [
                found[f"{layer}.attention.attention.{x}.{kind}"] for x in ("query", "key", "value")
            ]
            named[f"{block}.attn.qkv.{kind}"] = torch.cat(parts)
            for mine, other in {
                "norm1": "layernorm_before",
                "norm2": "layernorm_after",
                "attn.proj": "attention.output.dense",
                "mlp.fc1": "intermediate.dense",
                "mlp.fc2": "output.dense",
            }.items():
                named[f"{block}.{mine}.{kind}"] = found[f"{layer}.{other}.{kind}"]
    folder = tmp_path / "timm"
    folder.mkdir()
    save_file({name: x.contiguous() for name, x in named.items()}, folder / "model.safetensors")
    said = {"architecture": "vit_odd_patch7_21", "model_args": {"num_heads": 5}}
    said["pretrained_cfg"] = {"mean": [0.5] * 3, "std": [0.5] * 3}
    (folder / "config.json").write_text(json.dumps(said))
    x = pixels(rng)
    torch.testing.assert_close(
        ours_from(read_timm(folder))(x),
        theirs(pixel_values=normed(x)).logits,
        atol=WITHIN,
        rtol=WITHIN,
    )
    (folder / "config.json").write_text(json.dumps({**said, "architecture": "resnet50"}))
    with pytest.raises(CheckpointError, match="resnet50"):
        read_timm(folder)


@pytest.mark.usefixtures("theirs")
def test_an_imported_folder_is_a_run_that_classifies(tmp_path):
    import_model(tmp_path / "hf", tmp_path / "run")
    run = regard.load(tmp_path / "run")
    picture = np.zeros((30, 40, 3), np.uint8)
    assert run.classify(picture) in NAMES
    assert run.explain(picture).weights("encoder.self", 1).shape == (5, 10, 10)


PREPARED = {
    "usual": {},
    "bicubic": {"resample": 3},
    "other numbers": {"image_mean": [0.1, 0.2, 0.3], "image_std": [0.4, 0.5, 0.6]},
    "not normalised": {"do_normalize": False},
    "not scaled": {"do_rescale": False},
    "neither": {"do_normalize": False, "do_rescale": False},
    "another factor": {"rescale_factor": 1 / 127.5},
}


@torch.inference_mode()
@pytest.mark.parametrize("how", PREPARED)
def test_pictures_are_prepared_as_the_folder_says_and_again_when_exported(how, theirs, tmp_path):
    processing = pytest.importorskip("transformers.models.vit.image_processing_pil_vit")
    said = {"size": {"height": 21, "width": 21}, **PREPARED[how]}
    processing.ViTImageProcessorPil(**said).save_pretrained(tmp_path / "hf")
    import_model(tmp_path / "hf", tmp_path / "run")
    run = regard.load(tmp_path / "run", device="cpu")
    picture = np.arange(30 * 44 * 3).reshape(30, 44, 3).astype(np.uint8)
    export(run, "hf", tmp_path / "again")
    for folder in ("hf", "again"):
        processor = processing.ViTImageProcessorPil.from_pretrained(tmp_path / folder)
        seen = processor(picture, return_tensors="pt")["pixel_values"].float()
        pixels = run.pixels(run.fitted(picture)[None])
        torch.testing.assert_close(run.model.encoder.pixel_norm(pixels), seen, atol=1e-4, rtol=1e-5)
        torch.testing.assert_close(run.model(pixels), theirs(seen).logits, atol=1e-4, rtol=1e-4)


@pytest.mark.usefixtures("theirs")
def test_pictures_cut_out_of_larger_ones_are_told_and_other_sizes_refused(tmp_path):
    path = tmp_path / "hf" / "preprocessor_config.json"
    path.write_text(json.dumps({"size": {"shortest_edge": 24}, "do_center_crop": True}))
    found = read_vit(tmp_path / "hf")
    assert found.data["fit"] == "crop"
    assert "cut out of the middle of larger ones" in found.notes[0]
    for said in ({"height": 21, "width": 28}, {"height": 28, "width": 28}, 28):
        path.write_text(json.dumps({"size": said}))
        with pytest.raises(CheckpointError, match="a height and a width of 21"):
            read_vit(tmp_path / "hf")


@pytest.mark.slow
@torch.inference_mode()
def test_onnx_computes_the_same(tmp_path, rng):
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    pytest.importorskip("onnxscript", reason="onnxscript is not installed")
    config = VisionConfig(image_size=8, patch_size=4, d_model=8, n_heads=2, d_ff=9, n_layers=1)
    ours = VisionTransformer(config).eval()
    torch.nn.init.normal_(ours.to_labels.weight)
    write_onnx_vision(ours, tmp_path)
    session = onnxruntime.InferenceSession(str(tmp_path / "model.onnx"))
    for n in (1, 3):
        x = pixels(rng, 8)[:n]
        prepared = (x.numpy().astype(np.float32) / 255 - 0.5) / 0.5  # as its processor has it
        (found,) = session.run(["logits"], {"pixel_values": prepared})
        torch.testing.assert_close(torch.from_numpy(found), ours(x), atol=WITHIN, rtol=WITHIN)


@pytest.mark.slow
@pytest.mark.skipif(not CHECKPOINT.exists(), reason="the checkpoint is not beside the clone")
def test_a_public_model_of_digits_reads_digits(tmp_path):
    """Its authors' log says 97.21 % of all 10,000; the first ones are the harder half."""
    import_model(CHECKPOINT, tmp_path / "run")
    run = regard.load(tmp_path / "run")
    names = ("t10k-images-idx3-ubyte.xz", "t10k-labels-idx1-ubyte.gz")
    rows = [row.values for row in idx_rows(*(DATA / "mnist" / name for name in names))][:400]
    found = run.classify([row["image"] for row in rows])
    assert np.mean([a == row["label"] for a, row in zip(found, rows, strict=True)]) > 0.95
