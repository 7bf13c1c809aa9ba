"""onnxruntime computes from exported files what the model computes, by the names of Optimum."""

import json

import numpy as np
import pytest
import torch
from text_runs import short_run
from tiny import tiny_config
from translators import shaken

from regard.core.errors import ConfigError
from regard.interop.exporting import export
from regard.interop.onnx import write_onnx
from regard.models.transformer import Transformer
from regard.tasks.opening import load
from regard.tasks.translator import load_translator

onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
pytest.importorskip("onnxscript", reason="onnxscript is not installed")

FILES = ("encoder_model.onnx", "decoder_model.onnx", "decoder_with_past_model.onnx")
BATCHES = [
    ([[5, 6, 7, 2], [8, 2, 0, 0]], [[1, 9, 4], [1, 3, 11]]),
    ([[5, 6, 7, 8, 9, 2]], [[1, 5]]),
    ([[5]], [[1, 4, 5, 6, 7]]),
]


def opened(folder, *names):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return [onnxruntime.InferenceSession(str(folder / name), options) for name in names]


def answered(session, **given):
    """What a session gives, by name."""
    names = [one.name for one in session.get_outputs()]
    return dict(zip(names, session.run(names, given), strict=True))


def past_of(found):
    return {
        name.replace("present", "past_key_values"): array
        for name, array in found.items()
        if name.startswith("present")
    }


def logits_by_steps(folder, source, target):
    """Of the whole target at once, and of its last token alone, after those before it."""
    encoder, decoder, stepper = opened(folder, *FILES)
    mask = (source != 0).astype(np.int64)
    encoded = answered(encoder, input_ids=source, attention_mask=mask)["last_hidden_state"]
    read = {"encoder_attention_mask": mask, "encoder_hidden_states": encoded}
    whole = answered(decoder, input_ids=target, **read)["logits"]
    if target.shape[1] == 1:
        return whole, whole[:, -1:]
    past = past_of(answered(decoder, input_ids=target[:, :-1], **read))
    last = answered(stepper, input_ids=target[:, -1:], encoder_attention_mask=mask, **past)
    return whole, last["logits"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm_first": True, "bias": False, "activation": "gelu", "output_bias": True},
        {"positions": "learned", "shared_vocab": False, "n_target_vocab": 17},
        {"positions": "rotary", "tied_output": False},
        {"window": "local_m", "n_kv_heads": 1},
    ],
    ids=str,
)
@torch.inference_mode()
def test_logits_are_those_of_the_model_at_every_length(tmp_path, changes):
    model = shaken(Transformer(tiny_config(**changes)).eval())
    with torch.inference_mode(False):
        write_onnx(model, tmp_path)
    for source, target in BATCHES:
        wanted = model(torch.tensor(source), torch.tensor(target)).numpy()
        whole, last = logits_by_steps(tmp_path, np.array(source), np.array(target))
        np.testing.assert_allclose(whole, wanted, atol=1e-5)
        np.testing.assert_allclose(last, wanted[:, -1:], atol=1e-5)


def axes(values):
    return {one.name: one.shape for one in values}


@pytest.fixture(scope="module")
def translator(run_path, tmp_path_factory):
    """A run, and the folder of its export."""
    run = load_translator(run_path, device="cpu")
    folder = tmp_path_factory.mktemp("exported") / "onnx"
    export(run, "onnx", folder)
    return run, folder


def test_files_inputs_outputs_and_axes_have_the_names_of_optimum(translator):
    run, folder = translator
    others = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json")
    names = {path.name for path in folder.iterdir() if path.suffix != ".data"}
    assert names == {*FILES, *others}
    encoder, decoder, stepper = opened(folder, *FILES)
    V = run.model.config.n_target_vocab
    batch, source, target = "batch_size", "encoder_sequence_length", "decoder_sequence_length"
    assert axes(encoder.get_inputs()) == {
        "input_ids": [batch, source], "attention_mask": [batch, source],
    }  # fmt: skip
    assert axes(encoder.get_outputs()) == {"last_hidden_state": [batch, source, 32]}
    assert axes(decoder.get_inputs()) == {
        "encoder_attention_mask": [batch, source], "input_ids": [batch, target],
        "encoder_hidden_states": [batch, source, 32],
    }  # fmt: skip
    own, read = [batch, 2, target, 16], [batch, 2, source, 16]
    assert axes(decoder.get_outputs()) == {
        "logits": [batch, target, V],
        "present.0.decoder.key": own, "present.0.decoder.value": own,
        "present.0.encoder.key": read, "present.0.encoder.value": read,
    }  # fmt: skip
    past = [batch, 2, f"past_{target}", 16]
    assert axes(stepper.get_inputs()) == {
        "encoder_attention_mask": [batch, source], "input_ids": [batch, 1],
        "past_key_values.0.decoder.key": past, "past_key_values.0.decoder.value": past,
        "past_key_values.0.encoder.key": read, "past_key_values.0.encoder.value": read,
    }  # fmt: skip
    grown = [batch, 2, f"past_{target} + 1", 16]
    assert axes(stepper.get_outputs()) == {
        "logits": [batch, 1, V],
        "present.0.decoder.key": grown, "present.0.decoder.value": grown,
    }  # fmt: skip
    said = json.loads((folder / "config.json").read_text())
    assert (said["model_type"], said["is_encoder_decoder"]) == ("marian", True)
    assert said["decoder_start_token_id"] == run.tokenizers.target.specials.begin


def test_a_loop_of_twenty_lines_translates_as_we_do(translator):
    from tokenizers import Tokenizer

    run, folder = translator
    encoder, decoder, stepper = opened(folder, *FILES)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    said = json.loads((folder / "generation_config.json").read_text())
    begin, end = said["decoder_start_token_id"], said["eos_token_id"]
    hidden = [id_ for (id_,) in said["bad_words_ids"]]

    def translated(text, max_len):
        source = np.array([tokenizer.encode(text).ids])
        mask = np.ones_like(source)
        encoded = answered(encoder, input_ids=source, attention_mask=mask)["last_hidden_state"]
        read = {"encoder_attention_mask": mask}
        found = answered(
            decoder, input_ids=np.array([[begin]]), encoder_hidden_states=encoded, **read
        )
        past, ids = past_of(found), []
        while len(ids) < max_len:
            logits = found["logits"][0, -1]
            logits[hidden] = -np.inf
            if (best := int(logits.argmax())) == end:
                break
            ids.append(best)
            found = answered(stepper, input_ids=np.array([[best]]), **read, **past)
            past |= past_of(found)
        return tokenizer.decode(ids)

    texts = ["a b c", "h g f e d", "a", "c c c a b h"]
    ours = run.translate(texts, beam=1)
    assert len(set(ours)) > 1
    assert [translated(text, run.recipe.decode.max_len) for text in texts] == ours


def test_a_language_model_goes_on_from_its_past_and_with_padding_before_it(tmp_path):
    run = load(short_run("language", tmp_path), device="cpu")
    export(run, "onnx", tmp_path / "onnx")
    (model,) = opened(tmp_path / "onnx", "model.onnx")
    config = run.model.config
    cached = ["batch_size", 2, "past_sequence_length", 8]
    found = axes(model.get_inputs())
    assert found["input_ids"] == found["position_ids"] == ["batch_size", "sequence_length"]
    layers = [f"{i}.{part}" for i in range(config.n_layers) for part in ("key", "value")]
    assert all(found[f"past_key_values.{name}"] == cached for name in layers)
    said = json.loads((tmp_path / "onnx" / "config.json").read_text())
    assert (said["model_type"], said["eos_token_id"]) == ("gpt2", run.tokenizer.specials.end)

    def step(ids, mask, past):
        ids, mask = np.array(ids), np.array(mask)
        positions = (mask.cumsum(axis=1) - 1).clip(0)[:, -ids.shape[1] :]
        return answered(model, input_ids=ids, attention_mask=mask, position_ids=positions, **past)

    empty = np.zeros((2, 2, 0, 8), np.float32)
    nothing = {f"past_key_values.{name}": empty for name in layers}
    begun = step([[1, 5, 6, 7], [0, 0, 1, 9]], [[1, 1, 1, 1], [0, 0, 1, 1]], nothing)
    gone_on = step([[4], [8]], [[1, 1, 1, 1, 1], [0, 0, 1, 1, 1]], past_of(begun))
    with torch.inference_mode():
        long = run.model(torch.tensor([[1, 5, 6, 7, 4]])).numpy()
        short = run.model(torch.tensor([[1, 9, 8]])).numpy()
    np.testing.assert_allclose(begun["logits"][0], long[0, :4], atol=1e-5)
    np.testing.assert_allclose(begun["logits"][1, 2:], short[0, :2], atol=1e-5)
    np.testing.assert_allclose(gone_on["logits"][:, 0], [long[0, 4], short[0, 2]], atol=1e-5)


def test_what_onnx_needs_is_installed_as_the_documentation_says(run_path, tmp_path, monkeypatch):
    monkeypatch.setattr("regard.interop.onnx.find_spec", lambda _name: None)
    with pytest.raises(ConfigError, match=r"onnx and onnxscript.*pip install 'regard\[onnx\]'"):
        export(load(run_path, device="cpu"), "onnx", tmp_path / "out")
