"""onnxruntime computes from the exported halves what the model computes."""

import pytest
import torch
from tiny import tiny_config
from translators import shaken

from regard.interop.exporting import export
from regard.interop.onnx import write_onnx
from regard.models.transformer import Transformer
from regard.tasks.translator import load_translator

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
pytest.importorskip("onnxscript", reason="onnxscript is not installed")

BATCHES = [
    ([[5, 6, 7, 2], [8, 2, 0, 0]], [[1, 9, 4], [1, 3, 11]]),
    ([[5, 6, 7, 8, 9, 2]], [[1]]),
    ([[5]], [[1, 4, 5, 6, 7]]),
]


def halves(folder):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return [
        onnxruntime.InferenceSession(str(folder / name), options)
        for name in ("encoder.onnx", "decoder.onnx")
    ]


def theirs(folder, source, target):
    encoder, decoder = halves(folder)
    (encoded,) = encoder.run(None, {"source": source.numpy()})
    given = {"target": target.numpy(), "encoded": encoded, "source": source.numpy()}
    return torch.from_numpy(decoder.run(None, given)[0])


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm_first": True, "bias": False, "activation": "gelu", "output_bias": True},
        {"positions": "learned", "shared_vocab": False, "n_target_vocab": 17},
        {"positions": "rotary", "tied_output": False, "hidden_source_id": 2},
    ],
    ids=str,
)
@torch.inference_mode()
def test_logits_are_those_of_the_model_at_every_length(tmp_path, changes):
    model = shaken(Transformer(tiny_config(**changes)).eval())
    with torch.inference_mode(False):
        write_onnx(model, tmp_path)
    for source, target in BATCHES:
        ids = torch.tensor(source), torch.tensor(target)
        assert (theirs(tmp_path, *ids) - model(*ids)).abs().max() <= 1e-5


def test_a_run_is_exported_with_its_tokenizer(run_path, tmp_path):
    run = load_translator(run_path, device="cpu")
    export(run, "onnx", tmp_path / "onnx")
    assert (tmp_path / "onnx" / "tokenizer.json").exists()
    source = torch.tensor([[*run.tokenizers.source.encode("a b c"), 2]])
    target = torch.tensor([[1, *run.tokenizers.target.encode("c b")]])
    with torch.inference_mode():
        wanted = run.model(source, target)
    assert (theirs(tmp_path / "onnx", source, target) - wanted).abs().max() <= 1e-5
