"""Whoever reads an exported folder with other libraries gets the text that we give."""

import os

import pytest
import tokenizers

from regard.interop.exporting import export
from regard.runs.train import train
from regard.tasks.opening import load
from regard.tasks.recipe import recipe_from
from regard.tasks.translator import load_translator
from regard.text.words import join, split

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before it is imported: nothing is looked for
transformers = pytest.importorskip("transformers", reason="transformers is not installed")
ctranslate2 = pytest.importorskip("ctranslate2", reason="ctranslate2 is not installed")

TEXTS = [
    "jane visite l'afrique en septembre",
    "l'animal n'a pas traversé la rue parce qu'il était trop fatigué",
    "qu’est-ce que c’est, dit-elle (à voix basse) : rien !",
    "a well-known dog's tail; 3.5 % of 1,000 [or {so}]…",
    "'tis \"quoted\" – the dogs' end.",
    "no-one?! yes... ' alone, ( too",
]
KINDS = ("word", "char", "bpe")
MODEL = {"d_model": 16, "n_heads": 2, "d_ff": 32, "n_layers": 1, "dropout": 0.0}
TRAIN = {"max_steps": 1, "batch_tokens": 2000, "eval_every": 1, "save_every": 1}


def trained(folder, kind, **sections):
    pairs = folder / "pairs.tsv"
    pairs.write_text("".join(f"{text}\t{text}\n" for text in TEXTS * 2))
    raw = {
        "data": dict.fromkeys(("train", "valid", "test"), str(pairs)) | {"direction": "en-fr"},
        "text": {"kind": kind, "vocab_size": 400},
        "model": MODEL,
        "train": TRAIN,
        **sections,
    }
    train(recipe_from(raw), folder / "run")
    return folder / "run"


@pytest.fixture(scope="module", params=KINDS)
def translator(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    return load_translator(trained(folder, request.param), device="cpu")


def spelled(run, text):
    """What we make of a text that was read: words are joined anew, the rest is as it was."""
    return join(split(text)) if run.tokenizers.target.kind == "word" else text


def test_the_tokenizer_of_a_marian_folder_spells_as_we_do(translator, tmp_path):
    export(translator, "hf", tmp_path / "hf")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    ours = translator.tokenizers.target
    for text in TEXTS:
        ids = theirs(text).input_ids
        assert ids == [*ours.encode(text), 2]
        assert theirs.decode(ids, skip_special_tokens=True) == spelled(translator, text)
    assert ours.decode(ours.encode(TEXTS[0])) == TEXTS[0]


def test_tokens_of_ctranslate2_are_spelled_as_we_do(translator, tmp_path):
    export(translator, "ctranslate2", tmp_path / "ct2")
    reader = tokenizers.Tokenizer.from_file(str(tmp_path / "ct2" / "tokenizer.json"))
    engine = ctranslate2.Translator(str(tmp_path / "ct2"), intra_threads=1)
    for text in TEXTS:
        tokens = reader.encode(text, add_special_tokens=False).tokens
        assert reader.decoder.decode(tokens) == spelled(translator, text)
        # What the engine writes is told in the same tokens: here it is made to write the text.
        (forced,) = engine.translate_batch(
            [tokens], target_prefix=[tokens], beam_size=1, max_decoding_length=len(tokens)
        )
        assert reader.decoder.decode(forced.hypotheses[0][: len(tokens)]) == spelled(
            translator, text
        )


def test_a_target_with_a_tokenizer_of_its_own_is_spelled_by_it(tmp_path):
    text = {"kind": "word", "vocab_size": 400, "shared": False}
    run = load_translator(trained(tmp_path, "word", text=text), device="cpu")
    notes = export(run, "hf", tmp_path / "hf")
    assert any("target.json" in note for note in notes)
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "hf" / "target.json"))
    for text in TEXTS:
        assert theirs.decode(run.tokenizers.target.encode(text)) == spelled(run, text)


@pytest.mark.parametrize("kind", KINDS)
def test_the_tokenizer_of_a_language_model_spells_as_we_do(kind, tmp_path):
    lines = tmp_path / "lines.txt"
    lines.write_text("".join(f"{text}\n" for text in TEXTS * 3))
    data = {"train": str(lines), "valid": str(lines), "test": str(lines)}
    model = {**MODEL, "preset": "gpt", "max_len": 128}
    path = trained(tmp_path, kind, task="language", data=data, model=model)
    run = load(path, device="cpu")
    export(run, "hf", tmp_path / "hf")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    for text in TEXTS:
        ids = run.tokenizer.encode(text)
        assert theirs.decode(ids) == run.tokenizer.decode(ids)
