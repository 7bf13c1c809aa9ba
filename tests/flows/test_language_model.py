"""Text in, a language model out: trained, cut in two, written with, scored, and refused."""

import io
import json
import random
import sys

import pytest
import yaml

import regard
from regard.checkpoints.run_folder import RunFolder
from regard.checkpoints.snapshots import load_snapshot
from regard.cli.main import main
from regard.runs.train import train
from regard.tasks.opening import load
from regard.tasks.recipe import recipe_from
from regard.tasks.writer import Writer


def story(n, seed):
    """Lines in which b follows a and an empty line follows every d."""
    rng = random.Random(seed)
    lines = []
    for _ in range(n):
        lines += ["a b " + " ".join(rng.choices("ce", k=rng.randint(0, 4))), "d", ""]
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def raw(tmp_path_factory):
    folder = tmp_path_factory.mktemp("story")
    for name, n, seed in (("train", 300, 1), ("test", 20, 2)):
        (folder / f"{name}.txt").write_text(story(n, seed))
    return {
        "task": "language",
        "data": {"folder": str(folder), "train": "train.txt", "test": "test.txt"},
        "text": {"kind": "char"},
        "model": {
            "preset": "gpt",
            "d_model": 32,
            "n_layers": 2,
            "n_heads": 2,
            "d_ff": 48,
            "max_len": 20,
            "dropout": 0.1,
        },
        "train": {
            "max_steps": 60,
            "batch_tokens": 200,
            "lr": 1e-2,
            "warmup_steps": 10,
            "label_smoothing": 0.0,
            "save_every": 20,
            "eval_every": 30,
            "log_every": 10,
            "average": 0.9,
        },
    }


@pytest.fixture(scope="module")
def story_run(raw, tmp_path_factory):
    out = tmp_path_factory.mktemp("runs") / "story"
    train(recipe_from(raw), out)
    return out


@pytest.fixture
def run(capsys, monkeypatch):
    """Call the program; -> exit code, standard output, standard error."""

    def call(*argv, stdin="", place=io.TextIOWrapper):
        monkeypatch.setattr(sys, "stdin", place(io.BytesIO(stdin.encode())))
        code = main([str(word) for word in argv])
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def refused(run):
    def call(*argv, stdin=""):
        code, out, err = run(*argv, stdin=stdin)
        assert (code, err.count("\n")) == (2, 1), err
        return out, err

    return call


def test_it_learns_and_tells_what_it_learned(story_run):
    model = load(story_run)
    assert isinstance(model, Writer)
    facts = json.loads((story_run / "scores.json").read_text())
    test = facts["scores"]["test"]
    assert test == model.evaluate("test").scores
    assert test["perplexity"] < 4  # of 10 tokens; each line has little to choose
    assert facts["estimate"]["flops"] == pytest.approx(facts["measured"]["flops"], rel=1e-6)
    page = (story_run / "report.html").read_text()
    assert "perplexity" in page
    assert "(from nothing)" in page
    lines = [json.loads(line) for line in (story_run / "metrics.jsonl").read_text().splitlines()]
    valid = [line for line in lines if line["kind"] == "valid"]
    assert [line["step"] for line in valid] == [30, 60]
    assert valid[1]["loss"] < valid[0]["loss"]


def test_the_last_validation_is_the_loss_of_the_weights_that_were_kept(story_run):
    lines = [json.loads(line) for line in (story_run / "metrics.jsonl").read_text().splitlines()]
    best = min((line for line in lines if line["kind"] == "valid"), key=lambda line: line["loss"])
    scores = load(story_run).evaluate("valid").scores
    assert scores["loss"] == pytest.approx(best["loss"], rel=1e-6)
    assert scores["perplexity"] == pytest.approx(best["perplexity"], rel=1e-6)


def weights(out):
    """The best weights, and all of the last snapshot but the clock."""
    last = load_snapshot(max((out / "checkpoints").glob("step-*.safetensors")))
    facts = {**last.facts, "progress": {**last.facts["progress"], "seconds": 0}}
    tensors = {name: tensor.tolist() for name, tensor in last.tensors.items()}
    return (out / "model.safetensors").read_bytes(), facts, tensors


def test_a_run_that_is_cut_in_two_is_the_run_that_was_never_cut(raw, story_run, tmp_path):
    def stop(line):
        if line["step"] == 30:
            raise KeyboardInterrupt

    out = tmp_path / "cut"
    with pytest.raises(KeyboardInterrupt):
        train(recipe_from(raw), out, observers=[stop])
    assert not RunFolder(out).finished()
    said = []
    train(recipe_from(raw), out, resume=True, say=said.append)
    assert "resuming at step 20" in said
    assert weights(out) == weights(story_run)


def test_resuming_with_other_text_is_refused(raw, refused, tmp_path):
    text = tmp_path / "mine.txt"
    text.write_text(story(60, 4))
    data = {"train": str(text)}
    settings = {**raw, "data": data, "train": {**raw["train"], "max_steps": 4, "save_every": 2}}
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(yaml.safe_dump(settings))
    train(recipe_from(settings), tmp_path / "run")
    (tmp_path / "run" / "scores.json").unlink()
    text.write_text(story(60, 5))
    _, err = refused("train", recipe, "--out", tmp_path / "run", "--resume")
    assert "training data is not what it was" in err


def test_training_goes_on_from_weights_and_tokenizer_of_another_run(raw, story_run, tmp_path):
    (tmp_path / "other.txt").write_text("e e c\n" * 40)  # fewer characters
    steps = {"init": str(story_run), "max_steps": 1, "lr": 1e-9}
    settings = {**raw, "data": {"train": str(tmp_path / "other.txt")}}
    train(recipe_from({**settings, "train": {**raw["train"], **steps}}), tmp_path / "run")
    before, after = load(story_run), load(tmp_path / "run")
    assert after.score("a b c") == pytest.approx(before.score("a b c"), abs=1e-4)


def test_the_world_and_words_and_jsonl_can_be_learned_from(raw, tmp_path):
    file = tmp_path / "texts.jsonl"
    file.write_text("".join(json.dumps({"text": f"a b {i}"}) + "\n" for i in range(99)))
    small = {**raw["train"], "max_steps": 2, "label_smoothing": 0.1}
    for name, data in {
        "world": {"world": "sentences", "n_train": 300},
        "jsonl": {"train": str(file)},
    }.items():
        settings = {**raw, "data": data, "text": {"kind": "word"}, "train": small}
        trained = train(recipe_from(settings), tmp_path / name)
        assert "\n" not in trained.run.generate("", max_new=20, seed=0)
        assert next(iter(trained.evaluations)) == ("test" if name == "world" else "valid")


@pytest.mark.parametrize(("n", "told"), [(400, False), (6, True)])
def test_one_long_text_is_enough_to_validate_on_and_few_words_are_not(
    raw, tmp_path, capsys, n, told
):
    (tmp_path / "valid.txt").write_text("a b c d " * (n // 4) + "a " * (n % 4))
    data = {**raw["data"], "valid": str(tmp_path / "valid.txt")}
    small = {**raw["train"], "max_steps": 1}
    regard.train({**raw, "data": data, "train": small}, tmp_path / "run")
    assert ("valid has 6 words: its scores say little" in capsys.readouterr().err) == told


def test_lines_of_standard_input_are_prompts(run, story_run):
    words = ("generate", story_run, "--max-new", "6", "--temperature", "0", "--json")
    code, out, err = run(*words, stdin="a\nd\n")
    assert (code, err) == (0, "")
    first, second = map(json.loads, out.splitlines())
    assert set(first) == {"prompt", "text", "tokens", "finished"}
    assert first["prompt"] == "a"
    assert first["text"].startswith(" b")
    assert second["text"].startswith("\n")
    assert len(first["tokens"]) == 6
    plain = run(*words[:-1], stdin="a\nd\n")[1]
    assert plain == first["text"] + "\n" + second["text"] + "\n"


def test_a_stream_says_the_same(run, story_run):
    words = ("generate", story_run, "--max-new", "12", "--seed", "3")
    assert run(*words, "--stream", stdin="a\nd\n")[1] == run(*words, stdin="a\nd\n")[1]


def test_beams_on_the_command_line(run, refused, story_run):
    words = ("generate", story_run, "--max-new", "6", "--beam", "4", "--n-best", "2")
    code, out, err = run(*words, "--json", stdin="a\n")
    assert (code, err) == (0, "")
    told = [json.loads(line) for line in out.splitlines()]
    assert len(told) == 2
    assert told[0]["score"] >= told[1]["score"]
    plain = "".join(f"{one['text']}\t{one['score']:.4f}\n" for one in told)
    assert run(*words, stdin="a\n")[1] == plain
    assert "wider than the vocabulary" in refused("generate", story_run, "--beam", "9999")[1]


def test_several_texts_a_prompt_and_a_stop(run, story_run):
    words = ("generate", story_run, "--n", "3", "--seed", "1", "--stop", "\n", "--json")
    found = [json.loads(line) for line in run(*words, stdin="a\n")[1].splitlines()]
    assert len(found) == 3
    assert all(one["finished"] and "\n" not in one["text"] for one in found)


class Terminal(io.TextIOWrapper):
    def isatty(self):
        return True


def test_from_nothing_on_a_terminal(run, story_run):
    words = ("generate", story_run, "--max-new", "5", "--temperature", "0")
    code, out, _ = run(*words, place=Terminal)
    assert code == 0
    assert out


def test_nothing_in_nothing_out(run, story_run):
    assert run("generate", story_run) == (0, "", "")


def test_unknown_characters_are_told(run, story_run):
    assert "read as <unk>: zoo" in run("generate", story_run, "--max-new", "2", stdin="a zoo\n")[2]


def test_a_prompt_beyond_the_context(run, refused, story_run):
    long = "a b c e " * 4
    out, err = refused("generate", story_run, "--max-new", "4", stdin=f"a\n{long}\na\n")
    assert out.count("\n") >= 1  # what came before it was written
    assert "standard input, line 2: the prompt has 33 tokens" in err
    assert "holds 20" in err
    assert "--truncate left" in err
    words = ("generate", story_run, "--max-new", "4", "--temperature", "0")
    code, out, _ = run(*words, "--truncate", "left", stdin=f"{long}\n")
    assert code == 0
    assert out == load(story_run).generate(long, max_new=4, temperature=0, truncate="left") + "\n"
    assert "line 1" in refused(*words, "--stream", stdin=f"{long}\n")[1]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--temperature", "-1"], "temperature must be at least 0"),
        (["--top-p", "2"], "top_p must be above 0"),
        (["--top-k", "0"], "top_k must be at least 1"),
        (["--stream", "--json"], "leave out --json"),
        (["--seed", "-3"], "a seed must be"),
        (["--truncate", "right"], "right"),
    ],
)
def test_wrong_flags(refused, story_run, flags, words):
    assert words in refused("generate", story_run, *flags, stdin="a\n")[1]


def test_evaluate_and_info_show_what_there_is(run, story_run):
    scores = json.loads(run("evaluate", story_run, "--json")[1])
    assert (scores["task"], scores["split"], scores["n"]) == ("language", "test", 60)
    slid = json.loads(run("evaluate", story_run, "--stride", "5", "--json")[1])
    assert slid["perplexity"] != scores["perplexity"]
    shown = run("evaluate", story_run, "--split", "valid")[1]
    assert "perplexity" in shown
    assert "valid" in shown
    facts = json.loads(run("info", story_run, "--json")[1])
    assert facts["task"] == "language"
    assert facts["scores"]["test"] == scores
    assert "accuracy" in run("info", story_run)[1]


def test_what_is_for_other_runs_is_refused_with_the_right_verb(refused, story_run, run_path):
    assert "use `regard generate` with it" in refused("translate", story_run)[1]
    assert "use `regard translate` with it" in refused("generate", run_path)[1]
    assert (
        "--stride is for runs of the task language"
        in refused("evaluate", run_path, "--stride", "3")[1]
    )
    assert (
        "--beam is for runs of the task translation"
        in refused("evaluate", story_run, "--beam", "3")[1]
    )
    assert (
        "no split 'tset' (did you mean 'test'?)"
        in refused("evaluate", story_run, "--split", "tset")[1]
    )


@pytest.mark.parametrize(
    ("section", "change", "words"),
    [
        ("data", {"train": "nowhere.txt"}, "lacks nowhere.txt"),
        ("data", {"train": ["a.en", "a.fr"]}, "names two files"),
        ("text", {"kind": "bpe", "vocab_size": 300, "bpe_dropout": 0.1}, "bpe_dropout=0.1 does"),
        ("train", {"teacher_forcing": 0.5}, "teacher_forcing=0.5 does nothing"),
        ("train", {"criterion": "bleu"}, "criterion=bleu is for other tasks"),
        ("model", {"max_len": 9999}, "fewer than one window"),
        ("model", {"preset": "transformer"}, "cannot be trained for language"),
    ],
)
def test_recipes_that_cannot_be_trained(refused, raw, tmp_path, section, change, words):
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump({**raw, section: {**raw[section], **change}}))
    assert words in refused("train", path, "--out", tmp_path / "run")[1]


def test_a_tokenizer_of_another_run(refused, raw, story_run, tmp_path):
    settings = {**raw, "text": {"kind": "word"}, "train": {**raw["train"], "max_steps": 1}}
    train(recipe_from(settings), tmp_path / "run")
    (tmp_path / "run" / "tokenizer.json").write_text((story_run / "tokenizer.json").read_text())
    assert "they belong to different runs" in refused("generate", tmp_path / "run")[1]
