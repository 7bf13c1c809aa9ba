"""What is typed at a prompt answers in a line; what is printed, in a table."""

import pytest
from looked_at import HEADS, encoder_run
from systems import untrained

from regard.inspection.edits import NoPositions
from regard.runs.heads import HeadMeasures


@pytest.fixture(scope="module")
def run():
    return untrained("transformer", decode={"max_len": 3})


def widest(text):
    return max(map(len, text.splitlines()))


def test_a_run(run):
    n = sum(p.numel() for p in run.model.parameters())
    assert repr(run) == f"<Run nowhere: transformer, en-fr, {n:,} parameters, cpu>"
    assert str(run).splitlines() == [
        "folder      nowhere",
        "system      transformer",
        "languages   en-fr",
        f"parameters  {n:,}",
        "device      cpu",
    ]


@pytest.mark.parametrize("task", HEADS)
def test_a_run_of_an_encoder(task):
    run = encoder_run(task)
    n = sum(p.numel() for p in run.model.parameters())
    kind = type(run).__name__
    assert repr(run) == f"<{kind} nowhere: bert, {task}, {n:,} parameters, cpu>"


def test_a_look(run):
    look = run.explain("a b", "c d")
    heads = "2 layers × 3 heads"
    parts = ", ".join(f"{name} {heads}" for name in look.attentions)
    assert repr(look) == f"<Look at 'a b' → 'c d': {parts}>"
    shown = str(look).splitlines()
    assert shown[:2] == ["a b", "c d"]
    assert "decoder.cross, layer 1, mean of 3 heads" in shown[3:6]
    assert [line.split()[0] for line in shown[-3:]] == ["c", "d", "</s>"]
    assert not any(line != line.rstrip() for line in shown)


def test_a_look_at_a_long_text_under_an_edit_or_without_attention(run):
    long = run.explain("a b c d " * 40, "c", edit=NoPositions())
    assert len(repr(long)) < 300
    assert "…" in repr(long)
    assert repr(long).endswith(", under 1 edit>")
    assert widest(str(long)) <= 80
    silent = untrained("sutskever2014").explain("a b", "c")
    assert repr(silent) == "<Look at 'a b' → 'c': no attention>"
    assert str(silent).endswith("this system does not attend")


def test_steps(run):
    steps = run.explain("a b", "c d").steps("d", layer=1, head=2)
    most = steps.weights.argmax()
    looks = f"{steps.columns[most]!r} ({steps.weights[most]:.3f})"
    where = "decoder.cross, layer 1, head 2"
    assert repr(steps) == f"<Steps of 'd' in {where}: looks most at {looks}>"
    for word in (f"d in {where}", "2 key", "5 softmax", "6 weighted", "through W_o"):
        assert word in str(steps)
    assert widest(str(steps)) <= 80


def test_a_tree(run):
    tree = run.beam("a b", 2)
    size = f"2 beams, {len(tree.nodes)} nodes"
    assert repr(tree) == f"<Tree of {size}: best is {' '.join(tree.best)!r}>"
    lines = str(tree).splitlines()
    assert len(lines) == len(tree.nodes)
    assert sum("★" in line for line in lines) == 1


def test_measures_of_heads():
    measures = "entropy confidence self previous next first separator distance".split()
    row = {"name": "decoder.cross", "layer": 0, "head": 1, **dict.fromkeys(measures, 0.5)}
    row |= {"aer": None, "antecedent": None, "loss_change": 0.25, "bleu_change": -1.0}
    scores = {"loss": 2.0, "bleu": 30.0}
    found = HeadMeasures(
        (row,), ((0.0,),), ((0.0, 0.0),), (0,), "valid", 1, scores=scores, facts={"n_bleu": 1}
    )
    assert repr(found) == "<HeadMeasures of 1 head on 1 sentence of valid>"
    shown = str(found)
    assert shown.startswith("decoder.cross\nhead")
    assert "+0.250" in shown
    assert "Attention is not by itself an explanation" in " ".join(shown.split())
    assert widest(shown) <= 100
