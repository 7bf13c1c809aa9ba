"""``regard import``, and ``regard export --to hf``: out, in again, and used as any run."""

import json
import shutil

import pytest

LINES = "a b c\nd\nh g f e\n"


@pytest.fixture
def folder(run, run_path, tmp_path):
    """The run of letters as a MarianMT folder."""
    code, out, err = run("export", run_path, "--to", "hf", tmp_path / "hf")
    assert (code, err) == (0, "")
    assert out.startswith(f"{tmp_path / 'hf'}: hf, ")
    return tmp_path / "hf"


def test_a_folder_for_transformers_has_what_its_auto_classes_look_for(folder):
    names = {file.name for file in folder.iterdir()}
    assert names >= {"config.json", "generation_config.json", "model.safetensors"}
    assert names >= {"tokenizer.json", "tokenizer_config.json"}
    said = json.loads((folder / "config.json").read_text())
    assert (said["model_type"], said["decoder_start_token_id"]) == ("marian", 1)


def test_what_was_exported_is_imported_and_translates_as_before(run, run_path, folder, tmp_path):
    code, out, err = run("import", folder, "--out", tmp_path / "again")
    assert (code, out, err) == (0, f"{tmp_path / 'again'}: marian\n", "")
    asked = ("--beam", 2, "--json")
    _, before, _ = run("translate", run_path, *asked, stdin=LINES)
    code, after, _ = run("translate", tmp_path / "again", *asked, stdin=LINES)
    assert code == 0
    for ours, theirs in zip(before.splitlines(), after.splitlines(), strict=True):
        ours, theirs = json.loads(ours), json.loads(theirs)
        assert theirs["tokens"] == ours["tokens"]
        assert theirs["score"] == pytest.approx(ours["score"], abs=1e-5)


@pytest.mark.parametrize("beams", ["abc", [3], -3])
def test_a_number_of_beams_that_is_none_is_told(run, folder, tmp_path, beams):
    (folder / "generation_config.json").write_text(json.dumps({"num_beams": beams}))
    code, out, err = run("import", folder, "--out", tmp_path / "again")
    assert (code, out) == (2, "")
    assert err.endswith(f"must say num_beams as a number from 1, found {beams!r}\n")
    assert err.count("\n") == 1


def test_an_imported_classifier_reads_lines_with_a_tab_as_pairs(run, tmp_path):
    from language_models import stirred, weights_of

    from regard.interop.bert import write_bert
    from regard.models.encoder import Encoder
    from regard.models.settings import EncoderConfig

    sizes = {"n_vocab": 7, "d_model": 8, "n_heads": 2, "d_ff": 8, "n_layers": 1, "max_len": 9}
    model = Encoder(EncoderConfig(**sizes, head="classify", n_labels=2))
    stirred(model)
    (tmp_path / "bert").mkdir()
    write_bert(model.config, weights_of(model), tmp_path / "bert")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]
    (tmp_path / "bert" / "vocab.txt").write_text("\n".join(words) + "\n")
    assert run("import", tmp_path / "bert", "--out", tmp_path / "run")[0] == 0

    from regard.tasks.opening import load

    loaded = load(tmp_path / "run", device="cpu")
    wanted = [loaded.classify(x, with_scores=True).probability for x in ("a", ("a", "b"))]
    code, out, _ = run("classify", tmp_path / "run", stdin="a\na\tb\n")
    found = [float(line.split("\t")[1]) for line in out.splitlines()]
    assert code == 0
    assert found == pytest.approx(wanted, abs=1e-4)
    (tmp_path / "own.tsv").write_text("a\tb\tLABEL_0\nb\ta\tLABEL_1\n")
    assert run("evaluate", tmp_path / "run", tmp_path / "own.tsv")[0] == 0


def test_an_imported_run_is_a_run_like_any_other(run, folder, tmp_path):
    again = tmp_path / "again"
    run("import", folder, "--out", again, "--direction", "xx-yy")
    (tmp_path / "source").write_text("a b c\n")
    (tmp_path / "reference").write_text("c b a\n")
    code, out, _ = run("info", again)
    assert code == 0
    assert "xx, yy" in out
    assert run("explain", again, "a b")[0] == 0
    asked = ("--source", tmp_path / "source", "--reference", tmp_path / "reference")
    assert run("evaluate", again, *asked)[0] == 0
    assert (
        run("score", again, "--source", tmp_path / "source", "--target", tmp_path / "reference")[0]
        == 0
    )


def test_its_recipe_describes_the_model_that_was_imported(run, folder, tmp_path):
    from regard.checkpoints.run_folder import RunFolder, load_model, load_settings
    from regard.models.presets import resolve
    from regard.tasks.recipe import recipe_from

    run("import", folder, "--out", tmp_path / "again")
    again = RunFolder(tmp_path / "again")
    config = load_model(again).config
    found = resolve(
        recipe_from(load_settings(again)).model,
        n_source_vocab=config.n_source_vocab,
        n_target_vocab=config.n_target_vocab,
        shared_vocab=config.shared_vocab,
    )
    assert found == config


def test_training_goes_on_from_imported_weights(run, folder, corpus, tmp_path):
    again, more = tmp_path / "again", tmp_path / "more"
    run("import", folder, "--out", again)
    changes = [f"data.train={json.dumps(corpus['train'])}", f"data.valid={corpus['valid']}"]
    changes += [f"train.init={again}", "max_steps=2", "eval_every=2", "compile=false"]
    words = [word for change in changes for word in ("--set", change)]
    code, _, err = run("train", again / "config.yaml", "--out", more, *words)
    assert code == 0, err
    assert run("translate", more, stdin="a b\n")[0] == 0


# ------------------------------------------------------------------ what is refused


def test_what_cannot_be_imported_is_told_with_what_can(refused, tmp_path, run_path):
    out = ("--out", tmp_path / "out")
    strange = tmp_path / "strange"
    strange.mkdir()
    assert "strange holds nothing; supported are folders" in refused("import", strange, *out)
    (strange / "weights.h5").write_text("")
    assert "strange holds weights.h5; supported" in refused("import", strange, *out)
    (strange / "config.json").write_text('{"model_type": "t5"}')
    err = refused("import", strange, *out)
    assert "says model_type='t5'; supported are folders in the layout of Hugging Face" in err
    assert "is a run folder already" in refused("import", run_path, *out)
    assert "there is no" in refused("import", tmp_path / "nowhere", *out)
    assert "weights.h5 is a file; supported" in refused("import", strange / "weights.h5", *out)
    assert not (tmp_path / "out").exists()


def test_nothing_is_written_over_and_nothing_half(refused, folder, tmp_path):
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine").write_text("dear")
    assert "full exists already" in refused("import", folder, "--out", full)
    shutil.rmtree(full)
    (folder / "model.safetensors").write_bytes(b"torn")
    assert "model.safetensors is damaged" in refused("import", folder, "--out", full)
    assert not full.exists()


def test_a_direction_must_be_two_codes(refused, folder, tmp_path):
    err = refused("import", folder, "--out", tmp_path / "out", "--direction", "English")
    assert "direction" in err


def test_a_run_without_counterpart_is_not_exported(refused, run_path, tmp_path):
    kept = shutil.copytree(run_path, tmp_path / "run")
    path = kept / "config.json"
    path.write_text(path.read_text().replace('"global"', '"local_m"'))
    err = refused("export", kept, "--to", "hf", tmp_path / "out")
    assert "MarianMT has no counterpart of window='local_m'" in err
    assert not (tmp_path / "out").exists()


def test_a_model_that_translates_nothing_has_no_direction(refused, tmp_path):
    (tmp_path / "bert").mkdir()
    (tmp_path / "bert" / "config.json").write_text('{"model_type": "bert"}')
    err = refused("import", tmp_path / "bert", "--out", tmp_path / "out", "--direction", "de-en")
    assert "a model of the kind bert translates nothing: leave out --direction de-en" in err
