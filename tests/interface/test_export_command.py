"""``regard export``, and ``regard translate`` with another engine."""

import json
import shutil
import sys

import pytest
from letters import LETTERS

import regard.cli.verbs as commands
import regard.tasks.verbs as verbs
from regard.tasks.writing_verbs import Translate

ctranslate2 = pytest.importorskip("ctranslate2")

TEXTS = [" ".join(LETTERS[i : i + n]) for n in (5, 1, 3, 8, 2) for i in range(len(LETTERS) - n + 1)]
ENGINES = ["native", "ctranslate2", "auto"]


@pytest.fixture
def kept(run_path, tmp_path):
    return shutil.copytree(run_path, tmp_path / "run")


def test_what_is_exported_translates_by_itself(run, run_path, tmp_path):
    import tokenizers

    code, out, err = run("export", run_path, "--to", "ctranslate2", tmp_path / "out")
    assert (code, err) == (0, "")
    assert out.startswith(f"{tmp_path / 'out'}: ctranslate2, ")
    names = sorted(file.name for file in (tmp_path / "out").iterdir())
    assert names == ["config.json", "model.bin", "shared_vocabulary.json", "tokenizer.json"]
    reader = tokenizers.Tokenizer.from_file(str(tmp_path / "out" / "tokenizer.json"))
    translator = ctranslate2.Translator(str(tmp_path / "out"), intra_threads=1)
    results = translator.translate_batch(
        [reader.encode(text).tokens for text in TEXTS],
        beam_size=1,
        min_decoding_length=0,
        max_decoding_length=12,
    )
    _, ours, _ = run("translate", run_path, stdin="\n".join(TEXTS))
    assert [" ".join(result.hypotheses[0]) for result in results] == ours.splitlines()


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_gives_the_same_lines_in_the_same_order(run, kept, engine, monkeypatch):
    _, native, doubts = run("translate", kept, stdin="\n".join(TEXTS))
    if engine != "native":  # then the model's own search is never called
        monkeypatch.setattr("regard.tasks.translating.beam_search", None)
    code, out, err = run(
        "translate", kept, "--engine", engine, "--batch-tokens", 20, stdin="\n".join(TEXTS)
    )
    assert (code, out, err) == (0, native, doubts)


def test_translations_that_were_cut_off_are_counted(run, kept):
    _, out, err = run("translate", kept, stdin="\n".join(TEXTS))
    n_cut = sum(len(line.split()) == 12 for line in out.splitlines())
    assert n_cut > 1
    assert f"{n_cut} translations cut off after 12 tokens" in err


def test_json_and_hypotheses_are_as_ever(run, kept):
    lines = "a b zebra\n\nc d e\n"
    asked = ("translate", kept, "--json", "--n-best", 2, "--beam", 3)
    _, native, unknown = run(*asked, stdin=lines)
    code, out, err = run(*asked, "--engine", "ctranslate2", stdin=lines)
    assert (code, err) == (0, unknown)
    for ours, theirs in zip(native.splitlines(), out.splitlines(), strict=True):
        ours, theirs = json.loads(ours), json.loads(theirs)
        assert theirs.keys() == ours.keys()
        assert theirs["translation"] == ours["translation"]
        assert theirs["tokens"] == ours["tokens"]
        assert theirs["score"] == pytest.approx(ours["score"], abs=1e-4)
        assert len(theirs["hypotheses"]) == 2


def test_eight_bits_are_a_compute_type(run, kept):
    code, out, _ = run(
        "translate", kept, "--engine", "ctranslate2", "--compute-type", "int8", stdin="a b\nc\n"
    )
    assert code == 0
    assert out.count("\n") == 2


@pytest.mark.parametrize("engine", ENGINES)
def test_no_more_than_a_chunk_is_read_before_it_is_written(run, kept, engine, monkeypatch, capsys):
    written = []

    def endless(size):
        texts = TEXTS * 2
        for start in range(0, len(texts), size):
            if start:
                written.append(capsys.readouterr().out.count("\n"))
            yield texts[start : start + size]

    monkeypatch.setattr(Translate, "chunk", 4)
    monkeypatch.setattr(commands, "arriving_lines", endless)
    code, _, _ = run("translate", kept, "--engine", engine)
    assert code == 0
    assert set(written) == {4}


def test_unknown_words_do_not_fill_the_memory(run, kept, monkeypatch):
    monkeypatch.setattr(verbs, "MOST_UNKNOWN", 2)
    _, _, err = run("translate", kept, stdin="gnu a\nzebra b\nyak c\n")
    assert err == (
        "regard: 2 unknown words read as <unk>: gnu, zebra\n"
        "regard: further unknown words were not counted\n"
    )


# ------------------------------------------------------------------ what is refused


def test_a_folder_with_something_in_it_is_not_overwritten(refused, run, run_path, tmp_path):
    full, file = tmp_path / "full", tmp_path / "file"
    full.mkdir()
    (full / "mine").write_text("dear")
    file.write_text("dear")
    for there in (full, file):
        err = refused("export", run_path, "--to", "ctranslate2", there)
        assert "exists already; name a folder that is new or empty" in err
    assert (full / "mine").read_text() == file.read_text() == "dear"
    (tmp_path / "empty").mkdir()
    assert run("export", run_path, "--to", "ctranslate2", tmp_path / "empty")[0] == 0


@pytest.mark.parametrize(
    ("to", "words"),
    [
        ("ctranslate", "unknown export format 'ctranslate' (did you mean 'ctranslate2'?)"),
        ("", "unknown export format ''"),
    ],
)
def test_an_unknown_format(refused, run_path, tmp_path, to, words):
    assert words in refused("export", run_path, "--to", to, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_run_without_a_model_cannot_be_exported(refused, kept, tmp_path):
    (kept / "model.safetensors").unlink()
    assert "has no model.safetensors" in refused(
        "export", kept, "--to", "ctranslate2", tmp_path / "out"
    )
    missing = refused("export", tmp_path / "none", "--to", "ctranslate2", tmp_path / "out")
    assert "there is no run folder" in missing
    assert "Missing option '--to'" in refused("export", kept, tmp_path / "out")


def test_a_model_that_ctranslate2_has_no_counterpart_of(refused, run, kept, tmp_path):
    path = kept / "config.json"
    path.write_text(path.read_text().replace('"global"', '"local_m"'))
    words = "CTranslate2 has no counterpart of window='local_m'"
    assert words in refused("export", kept, "--to", "ctranslate2", tmp_path / "out")
    assert words in refused("translate", kept, "--engine", "ctranslate2", stdin="a\n")
    assert run("translate", kept, "--engine", "auto", stdin="a\n")[0] == 0
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("--engine", "nativ"), "unknown engine 'nativ' (did you mean 'native'?)"),
        (("--compute-type", "int8"), "compute type 'int8' is for the engine ctranslate2"),
        (("--engine", "ctranslate2", "--compute-type", "x"), "cannot compute in x on cpu"),
        (("--engine", "ctranslate2", "--beam", "1", "--n-best", "2"), "n_best=2 is more than"),
    ],
)
def test_wrong_engines_get_one_line(refused, kept, argv, words):
    assert words in refused("translate", kept, *argv, stdin="a\n")


def test_without_the_package_one_line_says_what_to_install(refused, run, kept, monkeypatch):
    monkeypatch.setitem(sys.modules, "ctranslate2", None)
    for argv in (
        ("translate", kept, "--engine", "ctranslate2"),
        ("export", kept, "--to", "ctranslate2", kept.parent / "out"),
    ):
        assert "pip install 'regard[ctranslate2]'" in refused(*argv)
    assert run("translate", kept, "--engine", "auto", stdin="a\n")[0] == 0


def test_a_page_is_a_folder_and_not_called_html(refused, run_path, tmp_path):
    said = refused("export", run_path, tmp_path / "students.html", "--to", "web")
    assert "a folder is written, not a file: name it without an ending" in said
    assert not (tmp_path / "students.html").exists()
