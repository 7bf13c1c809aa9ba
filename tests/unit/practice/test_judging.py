"""What learners write, in their own ways, and what they are told."""

import re
import textwrap

import pytest
import torch

from regard.practice.catalogue import EXERCISES
from regard.practice.findings import State, finding_from
from regard.practice.judging import CHANGED, NO_GRADIENT, NOTHING, judge, judge_part
from regard.practice.submission import Code


def findings(exercise, text):
    """Judge a learner's text in this process; -> findings by part."""
    code = Code("mine.py", textwrap.dedent(text))
    namespace = {}
    exec(compile(code.text, code.label, "exec"), namespace)
    return {one.part: one for one in judge(EXERCISES[exercise].sheet(), namespace, [code])}


def told(exercise, part, text):
    """What a learner is told about one part."""
    return findings(exercise, text)[part].message


def test_a_softmax_over_queries_by_loops_is_recognised():
    message = told(
        "attention",
        "weights",
        """
        import torch
        def weights(q, k):
            table = torch.zeros(len(q), len(k))
            for s in range(len(k)):
                scores = torch.stack([row @ k[s] for row in q]) / q.shape[1] ** 0.5
                table[:, s] = (scores - scores.max()).exp() / (scores - scores.max()).exp().sum()
            return table
        """,
    )
    assert message.startswith("your weights sum to 1 over queries, not keys")


def test_the_smallest_failing_example_is_shown_with_both_results():
    found = findings("attention", "def scores(q, k):\n    return q @ k.T")["scores"]
    assert found.message.startswith("your scores are not scaled")
    # the first example has width 1, where no scale is right
    assert found.example == {
        "q": "[[1, 1, 0, 0]]",
        "k": "[[2, 0, 0, 0], [0, 2, 0, 0], [0, 0, 2, 0]]",
    }
    assert (found.yours, found.right) == ("[[2, 2, 0]]", "[[1, 1, 0]]")


def test_one_mistake_is_told_once():
    found = findings(
        "attention",
        """
        def scores(q, k):
            return q @ k.T
        def weights(q, k):
            return scores(q, k).softmax(-1)
        def attention(q, k, v):
            return weights(q, k) @ v
        """,
    )
    states = {name: one.state for name, one in found.items()}
    assert states == {"scores": State.WRONG, "weights": State.PASSED, "attention": State.PASSED}


def test_a_law_is_told_where_no_mistake_explains_the_result():
    message = told(
        "attention",
        "weights",
        "def weights(q, k):\n    return (q @ k.T / q.shape[1] ** 0.5).softmax(-1) * 0.5",
    )
    assert message == "row 0 of your weights sums to 0.5: each must sum to 1"


@pytest.mark.parametrize(
    ("exercise", "text", "message"),
    [
        (
            "masks",
            "import torch\ndef causal_mask(n):\n    return torch.triu(torch.ones(n, n)) == 0",
            "off by one: no position may look at itself",
        ),
        (
            "masks",
            "import torch\ndef causal_mask(n):\n    return torch.triu(torch.ones(n, n)) == 1",
            "your positions look at what comes after them",
        ),
        (
            "masks",
            "def masked_softmax(scores, mask):\n    w = scores.exp() * mask\n"
            "    return w / scores.exp().sum(-1, keepdim=True)",
            "you mask after the softmax",
        ),
        (
            "sinusoids",
            "import torch, math\ndef sinusoids(n, d):\n    return torch.tensor([[(math.sin if c % 2"
            " == 0 else math.cos)((p + 1) / 10000 ** (c // 2 * 2 / d)) for c in range(d)]"
            " for p in range(n)])",
            "your positions start from 1",
        ),
        (
            "heads",
            "def split_heads(x, n_heads):\n    B, T, D = x.shape\n"
            "    return x.contiguous().view(B, n_heads, T, D // n_heads)",
            "you reshape straight to (B, H, T, Dh)",
        ),
        (
            "patches",
            "import torch\ndef to_patches(pictures, size):\n    p = pictures.unfold(2, size, size)"
            ".unfold(3, size, size)\n    return p.permute(0, 3, 2, 1, 4, 5)"
            ".flatten(3).flatten(1, 2)",
            "your patches run column by column",
        ),
        (
            "pipeline",
            "import torch\ndef masked_loss(logits, targets):\n"
            "    logp = logits.log_softmax(-1).gather(-1, targets[..., None])[..., 0]\n"
            "    return -logp.mean()",
            "padding counts",
        ),
        (
            "beam",
            "def score(hypothesis, alpha):\n    return hypothesis[1]",
            "the length is not used",
        ),
    ],
)
def test_mistakes_are_recognised_however_they_are_written(exercise, text, message):
    (found,) = [
        one
        for one in findings(exercise, text).values()
        if not one.message.startswith("there is no")
    ]
    assert found.state is State.WRONG
    assert found.message.startswith(message)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("pass", NOTHING),
        ("return (q @ k.T).tolist()", "you return a list, not a tensor"),
        ("return q.sum()", "your result has the shape (), not (1, 2)"),
        ("return q @ k.T / (q.sum() * 0)", "2 of your 2 numbers are not right"),
        ("return (q @ k.T) * float('nan')", "2 of your 2 numbers are NaN"),
        ("return (q @ k.T).detach() / q.shape[1] ** 0.5", NO_GRADIENT),
        ("k *= 2\n    return q @ k.T / 2 / q.shape[1] ** 0.5", CHANGED),
    ],
)
def test_what_a_result_may_lack(body, message):
    assert told("attention", "scores", f"def scores(q, k):\n    {body}") == message


def test_numbers_where_a_boolean_mask_is_asked_for():
    message = told(
        "masks",
        "padding_mask",
        "import torch\ndef padding_mask(lengths, n):\n"
        "    return (torch.arange(n) < lengths[:, None]).float()",
    )
    assert message == "your result holds float32: a boolean tensor is asked for"


def test_an_error_is_told_with_the_learners_line():
    found = findings("attention", "def scores(q, k):\n    x = q\n    return x @ k")["scores"]
    assert found.state is State.BROKEN
    assert found.message.startswith("RuntimeError: mat1 and mat2 shapes cannot be multiplied")
    assert found.where == "mine.py, line 3: return x @ k"


def test_a_wrong_result_on_a_small_example_comes_before_an_error_on_a_larger_one():
    text = "def scores(q, k):\n    return (q @ k.mT) * 2 if len(q) == 1 else q @ k"
    found = findings("attention", text)["scores"]
    assert (found.state, found.yours, found.right) == (State.WRONG, "[[4, 6]]", "[[2, 3]]")


def test_what_is_raised_only_the_second_time_is_told_too():
    text = """
    calls = []
    def scores(q, k):
        calls.append(1)
        if len(calls) > 5:
            raise ValueError("enough")
        return q @ k.mT / q.shape[1] ** 0.5
    """
    assert told("attention", "scores", text) == "ValueError: enough"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("raise SystemExit", "your code ends the program (exit): let it return instead"),
        ("return scores(q, k)", "your code calls itself without end (RecursionError)"),
        ("raise MemoryError", "it takes more memory than a check may have"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("return q.nothing", "AttributeError: 'Tensor' object has no attribute 'nothing'"),
    ],
)
def test_whatever_is_raised_is_a_line(body, message):
    assert told("attention", "scores", f"def scores(q, k):\n    {body}") == message


def test_blanks_and_missing_functions_are_told_apart():
    found = findings("attention", "def scores(q, k):\n    raise NotImplementedError\nweights = 3")
    assert [(one.state, one.message) for one in found.values()] == [
        (State.BLANK, "not written yet"),
        (State.BROKEN, "weights is no function"),
        (State.BROKEN, "there is no attention in your file"),
    ]


@pytest.mark.parametrize("loop", ["while True: pass", "while True: hidden()"])
def test_a_loop_without_end_is_ended_even_where_exceptions_are_caught(loop, monkeypatch):
    part = EXERCISES["attention"].sheet().parts["scores"]
    monkeypatch.setattr(part, "seconds", 0.2)
    text = f"""
    def hidden():
        try:
            while True: sum(range(9))
        except Exception:
            pass
    def scores(q, k):
        {loop}
    """
    found = findings("attention", text)["scores"]
    assert (found.state, found.message) == (State.BROKEN, "it did not end within 0.2 s")


def test_layers_that_share_their_weights_are_recognised():
    message = told(
        "encoder",
        "Encoder",
        """
        from torch import nn
        from regard.practice.exercises import encoder
        class Encoder(encoder.Encoder):
            def __init__(self, n_vocab, d_model, n_heads, d_ff, n_layers):
                super().__init__(n_vocab, d_model, n_heads, d_ff, 0)
                self.layers = nn.ModuleList([EncoderLayer(d_model, n_heads, d_ff)] * n_layers)
        """,
    )
    assert message.startswith("some of your layers are one and the same module")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("pass", "your module has no parameter 'to_q.weight'; it has none"),
        ("self.to_q = nn.Linear(d_model, 1)", "your parameter 'to_q.weight' has the shape (1, 2)"),
        (
            "self.to_query = nn.Linear(2, 2)",
            "your module has no parameter 'to_q.weight'; it has to",
        ),
    ],
)
def test_parts_of_a_module_that_are_missing_are_named(body, message):
    text = f"""
    from torch import nn
    class MultiHeadAttention(nn.Module):
        def __init__(self, d_model, n_heads):
            super().__init__()
            {body}
        def forward(self, x, mask):
            return x
    """
    assert told("encoder", "MultiHeadAttention", text).startswith(message)


def test_a_training_that_learns_too_little_is_told_both_losses():
    def worse(model, sentences, vocabulary):
        with torch.no_grad():
            model.words.weight.mul_(30)

    found = judge_part(EXERCISES["pipeline"].sheet().parts["train"], worse, [])
    assert found.state is State.WRONG
    assert re.fullmatch(
        r"after your training the loss on new sentences is [\d.]+ nats a word; counting words "
        r"alone reaches 2\.\d\d",
        found.message,
    )


def test_what_a_process_sends_is_bounded_and_cannot_reach_the_terminal():
    sent = {"part": "scores", "state": "wrong", "message": "\x1b[2J" + "x" * 5000, "example": {}}
    found = finding_from(sent)
    assert "\x1b" not in found.message
    assert len(found.message) == 1000


@pytest.mark.parametrize(
    ("sent", "problem"),
    [
        (None, "not a finding"),
        ([], "not a finding"),
        ({"part": "scores", "state": "passed"}, "not a finding"),
        ({"part": "scores", "state": "solved", "example": {}}, "not a valid State"),
        ({"state": "passed", "example": dict.fromkeys(map(str, range(99)))}, "too many arguments"),
    ],
)
def test_what_is_no_finding_is_refused(sent, problem):
    with pytest.raises(ValueError, match=problem):
        finding_from(sent)


def test_infinite_results_are_compared():
    text = "import torch\ndef causal_mask(n):\n    return torch.ones(n, n).tril().log()"
    assert told("masks", "causal_mask", text).startswith("your mask holds 0 and -inf")
