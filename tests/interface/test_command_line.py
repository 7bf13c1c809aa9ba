"""The program: text in, text out; bad input gets one line and exit code 2."""

import gzip
import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml

from regard.cli.main import main


@pytest.fixture
def recipe(settings, tmp_path):
    """Write a recipe with changes; -> its path."""

    def write(**sections):
        mixed = {
            section: {**inside, **sections.get(section, {})} for section, inside in settings.items()
        }
        path = tmp_path / "recipe.yaml"
        path.write_text(yaml.safe_dump(mixed))
        return path

    return write


# ------------------------------------------------------------------ what works


def test_help_needs_nothing_that_is_slow_to_import():
    code = (
        "import sys; from regard.cli.main import main; main(['--help']); "
        "sys.exit(bool({'torch', 'numpy', 'pydantic', 'yaml'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0
    for verb in ("demo", "train", "translate", "evaluate", "score", "info", "models", "recipes"):
        assert verb in done.stdout


def test_a_gpu_out_of_memory_is_told_in_a_line(monkeypatch, capsys):
    def run(_words):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 28.00 MiB. GPU 0 has")

    monkeypatch.setattr("regard.cli.main._run", run)
    assert main([]) == 2
    told = capsys.readouterr().err
    assert "too little memory" in told
    assert told.count("\n") == 1


def test_import_regard_needs_no_torch():
    code = "import sys, regard; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_translate_gives_a_line_for_a_line(run, run_path):
    code, out, _ = run("translate", run_path, stdin="a b c\n\nd e")
    assert code == 0
    lines = out.split("\n")
    assert len(lines) == 4
    assert lines[1] == ""
    assert lines[0]


@pytest.mark.parametrize(("stdin", "wanted"), [("", ""), ("\n", "\n"), (" \n\n", "\n\n")])
def test_silence_gives_silence(run, run_path, stdin, wanted):
    assert run("translate", run_path, stdin=stdin) == (0, wanted, "")


def test_translate_as_json(run, run_path):
    _, out, _ = run("translate", run_path, "--json", "--n-best", 2, "--beam", 3, stdin="a b\nc\n")
    first, second = (json.loads(line) for line in out.splitlines())
    assert first["source"] == "a b"
    assert first.keys() == {"source", "translation", "score", "tokens", "hypotheses"}
    assert first["hypotheses"][0]["translation"] == first["translation"]
    assert first["tokens"] == first["translation"].split()
    assert len(second["hypotheses"]) == 2


def test_translations_are_sampled_by_a_seed(run, run_path):
    words = ("translate", run_path, "--temperature", "3", "--top-p", "0.99", "--seed")
    first, again, other = (run(*words, seed, stdin="a b c d\n" * 5)[1] for seed in (1, 1, 2))
    assert first == again != other
    code, _, err = run("translate", run_path, "--beam", 4, "--top-k", 3, stdin="a\n")
    assert code == 2
    assert err == (
        "regard: sampling keeps no beam: leave out beam=4, or temperature, top_k and top_p\n"
    )


def test_translations_begin_with_a_prefix(run, refused, run_path):
    words = ("translate", run_path, "--prefix", "h g")
    code, out, err = run(*words, "--json", stdin="a b\n\nc d e\n")
    assert (code, err) == (0, "")
    found = [json.loads(line) for line in out.splitlines()]
    assert [one["tokens"][:2] for one in found] == [["h", "g"], [], ["h", "g"]]
    assert found[0]["translation"].startswith("h g")
    line = refused("translate", run_path, "--prefix", "a zebra", stdin="a\n")
    assert line.startswith("regard: prefix: the model cannot write 'zebra'")
    line = refused("translate", run_path, "--prefix", "a " * 20, stdin="a\n")
    assert line == (
        "regard: prefix: it has 20 tokens, but the translation of 'a' may have 12 with the end "
        "token; shorten it\n"
    )


def test_unknown_words_are_named_once_and_translated_all_the_same(run, run_path):
    code, out, err = run("translate", run_path, stdin="a zebra b\nzebra a\n")
    assert code == 0
    assert out.count("\n") == 2
    assert err == "regard: 1 unknown word read as <unk>: zebra\n"


def test_a_line_without_a_known_word_is_refused_after_those_before_it(run, run_path):
    code, out, err = run("translate", run_path, stdin="a b\nzebra gnu\na\n")
    assert code == 2
    assert out.count("\n") == 1
    assert err.count("\n") == 1
    assert err.startswith(
        "regard: standard input, line 2: the model knows no word of 'zebra gnu'; take texts like "
        "those that it was trained on, such as: "
    )


def test_an_answer_comes_before_the_next_line_is_written(run_path):
    words = [sys.executable, "-m", "regard", "translate", str(run_path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, bufsize=1, **pipes) as program:
        for line in ("a b\n", "\n", "c\n"):
            program.stdin.write(line)
            program.stdin.flush()
            assert (program.stdout.readline() == "\n") == (line == "\n")
        program.stdin.close()
        assert program.stdout.read() == ""
    assert program.returncode == 0


def test_evaluate_a_split_and_files(run, run_path, corpus):
    _, out, _ = run("evaluate", run_path, "--json")
    scores = json.loads(out)
    assert scores["task"] == "translation"
    assert (scores["split"], scores["n"]) == ("test", 40)
    assert scores.keys() >= {
        "exact_match", "bleu", "bleu_signature", "chrf", "chrf_signature", "perplexity", "accuracy",
    }  # fmt: skip
    source, reference = corpus["test"]
    _, out, _ = run("evaluate", run_path, "--json", "--source", source, "--reference", reference)
    again = json.loads(out)
    assert again["bleu"] == scores["bleu"]
    assert again["perplexity"] == scores["perplexity"]


def test_evaluate_shows_a_table(run, run_path):
    code, out, _ = run("evaluate", run_path, "--split", "valid")
    assert code == 0
    assert "exact match" in out
    assert "version:" in out  # the signature


def test_score_is_the_log_probability_a_line(run, run_path, corpus):
    import regard

    source, target = corpus["test"]
    _, out, _ = run("score", run_path, "--source", source, "--target", target)
    values = [float(line) for line in out.splitlines()]
    texts = [Path(name).read_text().splitlines() for name in (source, target)]
    assert values == pytest.approx(regard.load(run_path).score(*texts), abs=1e-4)


def test_info_names_model_special_ids_and_scores(run, run_path):
    _, out, _ = run("info", run_path, "--json")
    facts = json.loads(out)
    assert facts["task"] == "translation"
    assert facts["languages"] == ["ab", "ba"]
    assert facts["special_ids"] == {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3}
    assert facts["model"]["d_model"] == 32
    assert facts["parameters"] > 0
    assert facts["training_flops"] > 0
    assert facts["scores"]["test"]["n"] == 40
    code, out, _ = run("info", run_path)
    assert code == 0
    assert "special ids" in out
    assert "d_model=32" in out
    assert "top_k" not in out  # of experts, which it has not


def test_models_and_recipes_are_listed(run):
    assert "transformer" in run("models")[1]
    assert "reverse" in run("recipes")[1]


def test_the_schema_of_recipes_is_json(run):
    schema = json.loads(run("train", "--schema")[1])
    sections = {"task", "data", "text", "model", "train", "decode", "plugins", "base"}
    assert set(schema["properties"]) == sections
    families = {
        one["title"]: one["properties"] for one in schema["$defs"]["ModelSettings"]["oneOf"]
    }
    assert "fusion" in families["memory_network"]
    assert "fusion" not in families["transformer"]
    assert "additive" in families["encoder"]["score"]["examples"]


def test_a_dry_run_says_what_it_will_cost_and_writes_nothing(run, recipe, tmp_path):
    code, out, err = run("train", recipe(), "--out", tmp_path / "run", "--dry-run")
    assert code == 0
    assert "measuring" in err
    assert re.search(r"^time +about [\d.]+ (s|min)$", out, re.MULTILINE)
    for word in ("parameters", "FLOPs", "memory", "time"):
        assert word in out
    assert not (tmp_path / "run").exists()


def test_a_dry_run_of_many_documents_draws_some_of_them(run):
    def dry(n):
        small = ("document_length=120", "size=tiny", "batch_tokens=1000", f"n_train={n}")
        settings = [word for one in small for word in ("--set", one)]
        code, out, err = run("train", "documents-500", *settings, "--dry-run")
        assert code == 0
        (memory,) = re.findall(r"^memory +([\d.]+) GiB$", out, re.MULTILINE)
        return float(memory), out, err

    few, _out, err = dry(2000)
    assert "stand for all" not in err
    many, out, err = dry(900_000)
    assert "2,000 of the 900,000 records of train are drawn, and stand for all" in err
    assert re.search(r"^training documents +900,000$", out, re.MULTILINE)
    assert many > few + 1  # of 120 words and their facts each


def test_packed_files_and_empty_lines_are_read(run, recipe, corpus, tmp_path):
    packed = []
    for name in corpus["train"]:
        path = tmp_path / f"{name.rsplit('/', 1)[-1]}.gz"
        with gzip.open(path, "wb") as file:
            file.write(Path(name).read_bytes() + b"\n")
        packed.append(str(path))
    path = recipe(data={"train": packed}, train={"max_steps": 2})
    code, _, err = run("train", path, "--out", tmp_path / "run")
    assert code == 0
    assert "train: 1 lines skipped" in err


def test_long_lines_are_counted_and_dropped_or_cut(run, recipe, tmp_path):
    short = {"model": {"max_len": 4}, "train": {"max_steps": 2}}
    _, _, err = run("train", recipe(**short), "--out", tmp_path / "a")
    assert "pairs left out, being longer than max_len=4 tokens" in err
    path = recipe(**short, data={"long_lines": "truncate"})
    _, _, err = run("train", path, "--out", tmp_path / "b")
    assert "train: " in err
    assert "cut to max_len=4 tokens" in err


def test_resume_without_a_checkpoint_starts_at_step_0(run, recipe, tmp_path):
    path = recipe(train={"max_steps": 2})
    code, out, err = run("train", path, "--out", tmp_path / "run", "--resume")
    assert code == 0
    assert f"nothing to resume in {tmp_path / 'run'}; starting at step 0" in err
    assert "reached max_steps=2" in out
    code, out, _ = run("train", path, "--out", tmp_path / "run", "--resume")
    assert code == 0
    assert "finished" in out


def test_overwrite_replaces_a_run_and_nothing_else(run, recipe, tmp_path):
    path, out = recipe(train={"max_steps": 2}), tmp_path / "run"
    run("train", path, "--out", out)
    (out / "notes.txt").write_text("mine")
    code, _, _ = run("train", path, "--out", out, "--overwrite", "--set", "seed=7")
    assert code == 0
    assert (out / "notes.txt").read_text() == "mine"
    assert "seed: 7" in (out / "config.yaml").read_text()


# ------------------------------------------------------------------ what does not


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["tranlate"], "tranlate"),
        (["train", "copy", "--sett", "x=1"], "--sett"),
        (["translate"], "RUN"),
        (["translate", "nowhere"], "there is no run folder nowhere"),
        (["evaluate", "nowhere"], "there is no run folder nowhere"),
        (["train"], "which recipe"),
        (["train", "revers"], "did you mean 'reverse'"),
        (["train", "copy", "--resume", "--overwrite"], "give one of them"),
        (["train", "copy", "--set", "n_head=2"], "did you mean 'n_heads'"),
        (["train", "copy", "--set", "d_model=30"], "d_model=30 is not a multiple of n_heads=4"),
        (["train", "copy", "--device", "warp"], "device 'warp' is none of cpu, cuda"),
        (["train", "copy", "--device", "mps"], "device 'mps' cannot be used here"),
        (["train", "copy", "--dry-run", "--set", "d_model=4000000"], "parameters; to train them"),
        (["train", "copy", "--dry-run", "--set", "d_model=4000000000"], "no machine can hold"),
        (["train", "copy", "--dry-run", "--set", "experts=1000000"], "parameters; to train them"),
        (["train", "documents-500", "--dry-run", "--set", "n_train=99999999999"], "data.n_train="),
        (["train", "sutskever2014", "--set", "normaliser=hard"], "and there is none"),
        (["train", "sutskever2014", "--set", "window=local_p"], "and there is none"),
        (["train", "luong2015", "--set", "beta=learned"], "sharpens the score 'content'"),
        (["train", "cheng2016", "--set", "beta=learned"], "sharpens the score 'content'"),
        (["train", "copy", "--set", "teacher_forcing=2"], "expected a number from 0 to 1, or"),
        (["train", "copy", "--set", "teacher_forcing=abc"], "expected a number from 0 to 1, or"),
        (["demo", "--seed", "x"], "--seed"),
    ],
)
def test_wrong_words_get_one_line(refused, argv, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert words in refused(*argv)


def test_several_wrong_settings_are_told_at_once(refused):
    wrong = ["model.n_head=2", "train.lr=-1", "seeed=3", "size=huge", "max_steps=null"]
    flags = [word for setting in wrong for word in ("--set", setting)]
    message = refused("train", "reverse", *flags)
    for words in ("model.n_head", "train.lr=-1", "'seeed'", "never end", "falls to zero"):
        assert words in message
    message = refused("train", "copy", "--set", "d_model=30", "--set", "train.lr=-1")
    assert "d_model=30 is not a multiple" in message
    assert "train.lr=-1" in message
    assert "no size 'huge'" in refused("train", "copy", "--set", "size=huge")


@pytest.mark.parametrize(
    "flags",
    [
        ["--device", "warp"],
        ["--device", "meta"],
        ["--set", "d_model=31"],
        ["--set", "data.test=nowhere.tsv"],
        ["--set", "init=nowhere"],
        ["--set", "seed=2020-13-45"],
        ["--set", "seed=99999999999999999999"],
    ],
)
def test_overwriting_with_what_cannot_be_done_loses_nothing(refused, recipe, run_path, flags):
    before = {path: path.read_bytes() for path in run_path.rglob("*") if path.is_file()}
    refused("train", recipe(), "--out", run_path, "--overwrite", *flags)
    assert {path: path.read_bytes() for path in run_path.rglob("*") if path.is_file()} == before


def test_resuming_with_other_data_loses_nothing(run, refused, recipe, corpus, tmp_path):
    train = tmp_path / "train.tsv"
    lines = zip(*(Path(name).read_text().splitlines() for name in corpus["train"]), strict=True)
    train.write_text("".join(f"{a}\t{b}\n" for a, b in lines))
    path = recipe(data={"train": str(train)}, train={"max_steps": 5, "save_every": 2})
    run("train", path, "--out", tmp_path / "run")
    (tmp_path / "run" / "scores.json").unlink()  # as if killed just before its end
    train.write_text(train.read_text() + "new words\twords new\n")
    before = (tmp_path / "run" / "tokenizer.json").read_bytes()
    message = refused("train", path, "--out", tmp_path / "run", "--resume")
    assert "the training data is not what it was" in message
    assert (tmp_path / "run" / "tokenizer.json").read_bytes() == before


def test_files_of_unequal_length(refused, recipe, corpus, tmp_path):
    longer = tmp_path / "longer.src"
    longer.write_text(Path(corpus["train"][0]).read_text() + "one too many\n")
    message = refused(
        "train", recipe(data={"train": [str(longer), corpus["train"][1]]}), "--out", tmp_path / "r"
    )
    assert "1501" in message
    assert "1500" in message
    assert "one too many" in message


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("bad.tsv", b"a\tb\nc\xff\td\n", "bad.tsv:2"),
        ("bad.tsv", b"", "no pair in it"),
        ("bad.tsv", b"a b c\n", "bad.tsv:1"),
        ("bad.jsonl", b'{"source": "a"}\n', "'target'"),
        ("bad.doc", b"a\tb\n", ".tsv, .txt"),
    ],
)
def test_files_that_cannot_be_used(refused, recipe, tmp_path, name, content, words):
    path = tmp_path / name
    path.write_bytes(content)
    message = refused("train", recipe(data={"train": str(path)}), "--out", tmp_path / "run")
    assert words in message
    assert not (tmp_path / "run").exists()


def test_a_missing_file(refused, recipe, tmp_path):
    message = refused("train", recipe(data={"test": "nowhere.tsv"}), "--out", tmp_path / "run")
    assert "nowhere.tsv" in message


def test_an_out_folder_that_holds_a_run_is_refused(refused, recipe, run_path):
    before = (run_path / "model.safetensors").read_bytes()
    message = refused("train", recipe(), "--out", run_path)
    assert "already holds a run" in message
    assert "--resume" in message
    assert "--overwrite" in message
    assert (run_path / "model.safetensors").read_bytes() == before


def test_resuming_with_other_settings_is_refused(refused, recipe, run_path):
    message = refused("train", recipe(train={"lr": 0.5}), "--out", run_path, "--resume")
    assert "train.lr was 0.005 and is now 0.5" in message


def test_an_unknown_split_and_half_a_pair_of_files(refused, run_path):
    assert "did you mean 'test'" in refused("evaluate", run_path, "--split", "tset")
    assert "go together" in refused("evaluate", run_path, "--source", "x")


def test_a_split_and_files_at_once(refused, run_path, corpus):
    line = refused("evaluate", run_path, "--split", "valid", "--source", "a", "--reference", "b")
    assert "give one" in line


def test_a_byte_order_mark_on_standard_input_is_no_text(run, run_path):
    plain = run("translate", run_path, stdin="a b c\n")
    assert run("translate", run_path, stdin=b"\xef\xbb\xbfa b c\n") == plain


def test_a_recipe_with_a_section_twice(refused, tmp_path):
    path = tmp_path / "twice.yaml"
    path.write_text("data: {world: copy}\ntrain: {max_steps: 3}\ntrain: {max_steps: 4}\n")
    assert "'train' stands there twice" in refused("train", path)


def test_a_tokenizer_of_another_run(refused, run, run_path, recipe, corpus, tmp_path):
    path = tmp_path / "damaged"
    shutil.copytree(run_path, path)
    tokenizer = json.loads((path / "tokenizer.json").read_text())
    tokenizer["model"]["vocab"]["one-more"] = len(tokenizer["model"]["vocab"])
    (path / "tokenizer.json").write_text(json.dumps(tokenizer))
    told = refused("translate", path)
    assert "a source tokenizer of 13 tokens" in told
    assert "knows 12: they belong to different runs" in told


def test_a_run_stopped_before_its_first_validation_says_so(refused, run_path, tmp_path):
    path = tmp_path / "young"
    shutil.copytree(run_path, path)
    (path / "model.safetensors").unlink()
    (path / "scores.json").unlink()
    assert "has no weights yet" in refused("translate", path)


def test_standard_input_that_is_not_utf8(refused, run_path):
    assert "standard input, line 2: not UTF-8" in refused("translate", run_path, stdin=b"a\n\xff\n")


def test_a_bad_run_fails_on_empty_input_too(refused, tmp_path):
    assert "is not a run folder" in refused("translate", tmp_path, stdin="")


@pytest.mark.parametrize("damage", ["missing", "truncated"])
def test_damaged_weights(refused, run_path, tmp_path, damage):
    broken = tmp_path / "broken"
    shutil.copytree(run_path, broken)
    weights = broken / "model.safetensors"
    if damage == "missing":
        weights.unlink()
    else:
        weights.write_bytes(weights.read_bytes()[:1000])
    message = refused("translate", broken, stdin="a\n")
    assert "has no model.safetensors" in message if damage == "missing" else "damaged" in message


def test_a_text_beyond_learned_positions(run, recipe, tmp_path):
    path = recipe(model={"positions": "learned", "max_len": 8}, train={"max_steps": 2})
    assert run("train", path, "--out", tmp_path / "run")[0] == 0
    code, out, err = run("translate", tmp_path / "run", stdin="a b\nc d e f g h a b\na\n")
    assert code == 2
    assert out.count("\n") == 1  # what came before is translated
    assert "standard input, line 2: 9 tokens" in err
    assert "learned positions know 8" in err
    assert run("translate", tmp_path / "run", stdin="a b c\n")[0] == 0


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", "[]"),
        ("config.json", '{"family": "transformer", "n_heads": 0}'),
        ("config.yaml", "[]"),
        ("tokenizer.json", "{}"),
        ("scores.json", "{"),
    ],
)
def test_damaged_parts_of_a_run(refused, run_path, tmp_path, name, content):
    broken = tmp_path / "broken"
    shutil.copytree(run_path, broken)
    (broken / name).write_text(content)
    assert name in refused("info", broken)


def test_empty_lines_are_counted_when_evaluating(run, run_path, tmp_path):
    (tmp_path / "a[b]").write_text("a b\n\nc\n")
    (tmp_path / "ref").write_text("b a\n\nc\n")
    flags = ("--source", tmp_path / "a[b]", "--reference", tmp_path / "ref")
    code, out, err = run("evaluate", run_path, *flags)
    assert code == 0
    assert "a[b]" in out
    assert err == "regard: 1 lines skipped, being empty on one side or both\n"


def test_empty_files_cannot_be_scored(refused, run_path, tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text("")
    message = refused("score", run_path, "--source", tmp_path / "a", "--target", tmp_path / "b")
    assert "empty" in message


def test_the_demo_takes_settings_as_train_does(refused, tmp_path):
    told = refused("demo", "--no-serve", "--out", tmp_path / "demo", "--set", "max_step=50")
    assert "unknown setting 'max_step' (did you mean 'max_steps'?)" in told
    assert not (tmp_path / "demo").exists()


def test_the_demo_trains_scores_and_translates(run, recipe, tmp_path, monkeypatch):
    monkeypatch.setattr("regard.cli.demo.RECIPE", str(recipe(train={"max_steps": 3})))
    code, out, _ = run("demo", "--out", tmp_path / "demo", "--no-serve")
    assert code == 0
    assert "exact match" in out
    assert out.count("    ") >= 5
    assert "the animal did not cross the street because it was too wide" in out
    assert f"see it: regard serve {tmp_path / 'demo'}\n" in out


@pytest.mark.parametrize(
    ("typed", "found", "said"),
    [
        (".venv/bin/regard", None, ".venv/bin/regard"),
        (".venv/bin/regard", "/usr/bin/regard", "regard"),
        ("/somewhere/__main__.py", None, "regard"),
    ],
)
def test_the_next_step_is_named_as_it_can_be_typed(monkeypatch, typed, found, said):
    from regard.cli import demo

    monkeypatch.setattr(sys, "argv", [typed])
    monkeypatch.setattr(demo.shutil, "which", lambda _name: found)
    assert demo._program() == said


def test_a_watched_training_has_a_bar(settings):
    from rich.console import Console
    from rich.progress import Progress, TextColumn

    from regard.runs.progress import Bar
    from regard.training.settings import TrainSettings

    screen = io.StringIO()
    columns = TextColumn("step {task.fields[step]} {task.percentage:.0f} % {task.fields[text]}")
    console = Console(file=screen, force_terminal=True, width=90)
    with Progress(columns, console=console, auto_refresh=False) as progress:
        bar = Bar(progress, TrainSettings(max_steps=40))
        bar({"kind": "train", "step": 10, "loss": 2.5, "tokens_per_second": 1234.0, "seconds": 3.0})
        bar({"kind": "valid", "step": 10, "loss": 2.0, "bleu": 7, "exact_match": 0.5, "best": True})
        progress.refresh()
    text = screen.getvalue()
    assert "step 10 25 % loss 2.5000  1,234 tokens/s" in text
    assert "validation loss 2.0000  BLEU 7.00  exact match 50.0 %  best" in text


def test_more_translations_than_beams(refused, run_path):
    message = refused("translate", run_path, "--beam", 2, "--n-best", 3, stdin="a\n")
    assert "2" in message
    assert "3" in message


@pytest.mark.slow
@pytest.mark.parametrize("room", [100, 60_000])
def test_no_space_left_loses_nothing(recipe, tmp_path, room):
    """A limit on the size of files stands in for a full disk: small and large writes fail."""
    path, out = recipe(train={"max_steps": 30}), tmp_path / "run"
    code = (
        "import resource, sys; from regard.cli.main import main; "
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({room},) * 2); sys.exit(main(sys.argv[1:]))"
    )
    words = ["train", str(path), "--out", str(out)]
    assert main([*words, "--set", "max_steps=11"]) == 0
    (out / "scores.json").unlink()
    settings = (out / "config.yaml").read_text().replace("max_steps: 11", "max_steps: 30")
    (out / "config.yaml").write_text(settings)
    before = {p.name: p.read_bytes() for p in (out / "checkpoints").iterdir()}
    program = [sys.executable, "-c", code, *words, "--resume"]
    done = subprocess.run(program, capture_output=True, text=True)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    last = done.stderr.strip().split("\n")[-1]
    assert last.startswith("regard: cannot write")
    assert "still there" in last
    assert not list(out.rglob("*.partial"))
    assert {p.name: p.read_bytes() for p in (out / "checkpoints").iterdir()} == before
    assert main([*words, "--resume"]) == 0
