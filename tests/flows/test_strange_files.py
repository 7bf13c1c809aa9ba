"""Every file that is read from a run folder, and recipes, changed at random.

Whatever a file holds, the program works or ends with one line and exit code 2. In these tests any
other exception is an error, and so is a second line.
"""

import contextlib
import io
import json
import shutil
from pathlib import Path

import pytest
import yaml
from chats import chat_folder
from encoders import labelled
from encoders import settings as encoder_settings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regard.checkpoints.snapshots import load_snapshot
from regard.cli.main import main
from regard.core.errors import RegardError
from regard.recipes.recipe import load_recipe
from regard.runs.train import train
from regard.tasks.recipe import recipe_from
from regard.training.metrics import MetricsLog, read_metrics

FEW = settings(
    max_examples=12,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

STRANGE = st.sampled_from(
    [
        None, True, -1, 0, 2**20, 10**9, 2**62, 2**64, 10**30, 0.5, -0.5, 1e308, float("inf"),
        float("nan"), "", "x", "\x1b[31m", "a" * 10_000, [], {}, [[]], [1, "a"], {"a": {"b": []}},
        {"": 0}, [None] * 40,
    ]
)  # fmt: skip
"""What a setting may be changed to."""


WRITE = ("generate", "--max-new", "2")
TALK = ("chat", "--max-new", "2", "--message", "hi")
NO_VALUES = [
    "!!timestamp x", "!!int x", "!!bool x", "!!float", "!!binary x", "&a [*a]", "[" * 999,
    "1" * 5000, "0x" + "f" * 90, "1:59:59", "2001-99-99", "{1: 2}", "\x00", "? [a]", "!x y",
]  # fmt: skip
"""YAML that is none, or none that a setting can have."""


def places(found, path=()):
    """All paths in nested dictionaries and lists."""
    items = found.items() if isinstance(found, dict) else enumerate(found)
    for key, one in items:
        yield (*path, key)
        if isinstance(one, dict | list):
            yield from places(one, (*path, key))


@st.composite
def changed(draw, whole):
    """Plain data with one thing lost, strange, or under another name."""
    found = json.loads(json.dumps(whole))
    *outer, key = draw(st.sampled_from(sorted(places(found), key=str)))
    inside = found
    for step in outer:
        inside = inside[step]
    how = draw(st.sampled_from(["strange", "strange", "strange", "lost", "renamed"]))
    if how == "strange":
        inside[key] = draw(STRANGE)
    elif how == "lost" or isinstance(inside, list):
        del inside[key]
    else:
        inside[draw(st.sampled_from(["", "x", "family", "a" * 999, "\u202e"]))] = inside.pop(key)
    return found


@st.composite
def torn(draw, data):
    """Bytes with some lost, some others, or something in between."""
    at = draw(st.integers(0, max(0, len(data) - 1)))
    some = draw(
        st.sampled_from(
            [b"", b"\x00", b"\xff\xfe", b"[" * 3000, b"9" * 5000, b"&a [*a, *a]", b"!!int x", b"\n"]
        )
    )
    gone = draw(st.sampled_from([0, 1, 7, len(data)]))
    return data[:at] + some + data[at + gone :]


def outcome(*words, given=""):
    """Run the program; -> the exit code and what it said on stderr."""
    told = io.StringIO()
    with (
        contextlib.redirect_stderr(told),
        contextlib.redirect_stdout(io.StringIO()),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(given.encode()), encoding="utf-8"))
        code = main([str(word) for word in words])
    return code, told.getvalue()


def check(*words, given=""):
    code, told = outcome(*words, given=given)
    assert code in (0, 2), told
    if code == 2:
        line = told.splitlines()[-1]
        assert line.startswith("regard: ")
        assert len(line) < 5000
        assert line.isprintable()


@pytest.fixture(scope="module")
def translator(run_path, tmp_path_factory):
    copy = tmp_path_factory.mktemp("strange") / "run"
    shutil.copytree(run_path, copy)
    return copy


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    folder = tmp_path_factory.mktemp("strange")
    asked = encoder_settings("classification", folder, labelled, train={"max_steps": 2})
    train(recipe_from(asked), folder / "run")
    return folder / "run"


@pytest.fixture(scope="module")
def chatbot(tmp_path_factory):
    return chat_folder(tmp_path_factory.mktemp("strange"))


@contextlib.contextmanager
def in_place_of(path: Path, data: bytes):
    """Inside the block a file holds something else."""
    kept = path.read_bytes()
    path.write_bytes(data)
    try:
        yield
    finally:
        path.write_bytes(kept)


def read(path):
    text = path.read_text()
    return yaml.safe_load(text) if path.suffix == ".yaml" else json.loads(text)


def written(path, found):
    """As the format of the file has it."""
    dumped = yaml.safe_dump(found) if path.suffix == ".yaml" else json.dumps(found)
    return dumped.encode("utf-8", "surrogatepass")


def try_all(run, name, data, *verb, given="a b"):
    path = run / name
    changes = st.one_of(
        torn(path.read_bytes()), changed(read(path)).map(lambda x: written(path, x))
    )
    with in_place_of(path, data.draw(changes)):
        check(*verb, run, given=given)


def test_with_files_as_they_were_written_all_works(translator, classifier, chatbot):
    verbs = [("translate", translator), ("info", translator), ("classify", classifier)]
    for words in (*verbs, (*WRITE, chatbot), (*TALK, chatbot)):
        assert outcome(*words, given="a b\n")[0] == 0


@pytest.mark.parametrize("name", ["config.yaml", "config.json", "tokenizer.json"])
@FEW
@given(data=st.data())
def test_files_of_a_translator(translator, name, data):
    try_all(translator, name, data, "translate", given="a b\n")


@FEW
@given(data=st.data())
def test_scores_of_a_run(translator, data):
    try_all(translator, "scores.json", data, "info")


@pytest.mark.parametrize("name", ["labels.json", "config.json"])
@FEW
@given(data=st.data())
def test_files_of_a_classifier(classifier, name, data):
    try_all(classifier, name, data, "classify", given="a b\n")


@pytest.mark.parametrize("name", ["marks.json", "tokenizer.json"])
@FEW
@given(data=st.data())
def test_files_of_a_language_model_of_others(chatbot, name, data):
    try_all(chatbot, name, data, *WRITE, given="a b\n")


@FEW
@given(data=st.data())
def test_the_template_of_a_model_that_talks(chatbot, data):
    path = chatbot / "chat_template.jinja"
    with in_place_of(path, data.draw(torn(path.read_bytes()))):
        check(*TALK, chatbot)


@FEW
@given(data=st.data())
def test_weights(translator, data):
    path = translator / "model.safetensors"
    with in_place_of(path, data.draw(torn(path.read_bytes()))):
        check("translate", translator, given="a\n")


@FEW
@given(data=st.data())
def test_checkpoints(translator, data):
    path = max((translator / "checkpoints").glob("step-*"))
    with in_place_of(path, data.draw(torn(path.read_bytes()))), contextlib.suppress(RegardError):
        load_snapshot(path)


@FEW
@given(data=st.data())
def test_metrics(translator, data):
    path = translator / "metrics.jsonl"
    lines = path.read_text().splitlines()
    other = changed(json.loads(lines[1])).map(lambda x: f"{lines[0]}\n{json.dumps(x)}\n".encode())
    with (
        in_place_of(path, data.draw(st.one_of(torn(path.read_bytes()), other))),
        contextlib.suppress(RegardError),
    ):
        log = MetricsLog(path, first_step=20)
        log({"step": 21, "kind": "train", "loss": 1.0})
        assert read_metrics(path)[-1]["step"] == 21


@FEW
@given(data=st.data())
def test_recipes(tmp_path_factory, settings, data):
    path = tmp_path_factory.mktemp("recipes") / "mine.yaml"
    whole = recipe_from(settings).model_dump(mode="json")
    path.write_text(yaml.safe_dump(whole))
    strange = st.one_of(torn(path.read_bytes()), changed(whole).map(lambda x: written(path, x)))
    path.write_bytes(data.draw(strange))
    with contextlib.suppress(RegardError):
        load_recipe(str(path))


@FEW
@given(data=st.data())
def test_overrides(data):
    name = data.draw(st.sampled_from(["max_steps", "d_ff", "data.augment.crop", "lr", "columns"]))
    values = ["!!timestamp x", "!!int x", "!!bool x", "!!float", "!!binary x", "&a [*a]", "[" * 999]
    values += [
        "1" * 5000,
        "0x" + "f" * 90,
        "1:59:59",
        "2001-99-99",
        "{1: 2}",
        "\x00",
        "? [a]",
        "!x y",
    ]
    with contextlib.suppress(RegardError):
        load_recipe("copy", [f"{name}={data.draw(st.sampled_from(values))}"])
