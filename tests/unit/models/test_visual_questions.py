"""Models that answer questions about pictures."""

import pytest
import torch

from regard.models.visual_questions import (
    StackedReader,
    VisualQuestionsConfig,
    differential_context,
    triplet,
    visual_questions,
)

SMALL = {
    "d_model": 16, "n_heads": 2, "d_ff": 32, "dropout": 0.0, "image_size": 32, "n_vocab": 11,
    "n_labels": 5, "max_len": 32,
}  # fmt: skip
KINDS = {
    "stacked": {"encoder": "conv"},
    "stacked patches": {"encoder": "patches", "n_layers": 1},
    "joint": {"reader": "joint", "n_layers": 2},
    "joint conv": {"reader": "joint", "n_layers": 1, "encoder": "conv"},
}


def model(kind="stacked", **settings):
    torch.manual_seed(0)
    config = VisualQuestionsConfig.model_validate({**SMALL, **KINDS[kind], **settings})
    return visual_questions(config).eval()


def inputs(n=3):
    rng = torch.Generator().manual_seed(1)
    pixels = torch.randint(0, 256, (n, 3, 32, 32), dtype=torch.uint8, generator=rng)
    ids = torch.randint(4, 11, (n, 6), generator=rng)
    ids[1, 4:] = 0
    return pixels, ids


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_does_not_depend_on_its_batch_or_its_padding(kind):
    one, (pixels, ids) = model(kind), inputs()
    together = one(pixels, ids)
    assert together.shape == (3, 5)
    alone = one(pixels[1:2], ids[1:2, :4])
    torch.testing.assert_close(alone[0], together[1], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_picture_and_question_both_count(kind):
    one, (pixels, ids) = model(kind), inputs()
    before = one(pixels, ids)
    assert not torch.allclose(one(pixels.flip(0), ids)[0], before[0], atol=1e-5)
    assert not torch.allclose(one(pixels, ids.flip(0))[0], before[0], atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_every_weight_learns(kind):
    one = model(kind).train()
    one(*inputs()).square().sum().backward()
    still = [name for name, p in one.named_parameters() if p.grad is None or not p.grad.any()]
    assert not still


def test_stacked_attention_is_what_its_paper_writes():
    one, (pixels, ids) = model(), inputs()
    pixels, ids = pixels[:1], ids[:1]
    _, last = one.recurrence(one.tokens(ids), ids != 0)
    u, v = last.h[0, -1], one.encoder(pixels)[0]
    for look in one.looks:
        score = look.score
        e = score(u[None, None, None], v[None, None])[0, 0, 0]
        p = e.softmax(dim=0)
        found = sum(p[i] * v[i] for i in range(len(v)))
        u = u + found
    expected = one.to_labels(u)
    torch.testing.assert_close(one(pixels, ids)[0], expected, atol=1e-5, rtol=1e-5)


def test_the_differential_context_by_hand():
    s, plus, minus = (torch.tensor(one) for one in ([1.0, 0.0], [2.0, 3.0], [-1.0, 4.0]))
    # Along s: (2, 0) and (-1, 0); across it: (0, 3) and (0, 4).
    assert differential_context(s, plus, minus).tolist() == [1.0, -7.0]
    assert differential_context(torch.zeros(2), plus, minus).isfinite().all()


def test_the_triplet_by_hand():
    s = torch.tensor([[0.0, 0.0], [0.0, 0.0]])
    near, far = torch.tensor([[1.0, 0.0], [2.0, 0.0]]), torch.tensor([[2.0, 0.0], [1.0, 0.0]])
    assert triplet(s, near, far, margin=0.5).item() == pytest.approx(4 + 0.5 - 1)


@pytest.mark.parametrize("combine", ["add", "multiply"])
def test_examples_change_what_a_context_answers(combine):
    one, batch = model(differential="context", combine=combine), inputs()
    assert isinstance(one, StackedReader)
    plus, minus = torch.randn(2, 3, 16)
    found, plain = one(*batch, plus, minus), one(*batch)
    assert not torch.allclose(found, plain, atol=1e-4)
    question, s = one.look(*batch)
    context = one.scale * differential_context(s, plus, minus)
    joined = s + context if combine == "add" else s * context
    torch.testing.assert_close(found, one.to_labels(question - s + joined))
    assert "scale" not in dict(model(differential="loss").named_parameters())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"differential": "loss"}, "differential attention is of the stacked reader"),
        ({"n_layers": 0}, "a joint reader needs n_layers"),
    ],
)
def test_what_cannot_be_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        model("joint", **settings)
