"""Models that answer questions about pictures."""

import pytest
import torch

from regard.models.visual_questions import (
    ExampleMemory,
    Exemplars,
    Looked,
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


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
@pytest.mark.parametrize("d_model", [32, 256])
def test_words_begin_as_large_as_the_positions_added_to_them(positions, d_model):
    embedding = model("joint", positions=positions, d_model=d_model).embedding
    ids = torch.arange(4, 11)
    words = embedding.scale * embedding.tokens(ids)
    places = embedding.positions(torch.zeros(1, 7, d_model))
    assert 0.7 < words.std() / places.square().mean().sqrt() < 2


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
    looked, exemplars = one.look(*batch), Exemplars(*torch.randn(2, 3, 16))
    found, plain = one.answer(looked, exemplars), one.answer(looked)
    assert not torch.allclose(found, plain, atol=1e-4)
    question, s = looked
    context = one.scale * differential_context(s, *exemplars)
    joined = s + context if combine == "add" else s * context
    torch.testing.assert_close(found, one.to_labels(question - s + joined))
    assert "scale" not in dict(model(differential="loss").named_parameters())


def test_a_context_is_that_of_the_remembered_neighbours():
    one, batch = model(differential="context"), inputs()
    looked = one.look(*batch)
    exemplars = one.examples.neighbours(looked.question)
    assert torch.equal(one(*batch), one.answer(looked, exemplars))


def test_neighbours_are_those_of_a_loop():
    memory = ExampleMemory(3, size=25)
    questions = torch.randn(4, 3)
    found = memory.neighbours(questions)
    for i, question in enumerate(questions):
        near = sorted(range(25), key=lambda j: (memory.questions[j] - question).norm().item())
        for side, rows in ((found.supporting, near[:4]), (found.opposing, near[10:14])):
            torch.testing.assert_close(side[i], sum(memory.found[j] for j in rows) / 4)


def test_a_question_is_no_example_of_itself():
    memory, numbers = ExampleMemory(2, size=6), torch.arange(6)
    vectors = torch.randn(6, 2)
    memory.add(Looked(vectors, vectors), numbers)
    own = memory.neighbours(vectors[:1], numbers[:1]).supporting
    rest = memory.neighbours(vectors[:1], torch.tensor([7])).supporting
    assert not torch.allclose(own, rest)
    others = sorted(range(1, 6), key=lambda j: (vectors[j] - vectors[0]).norm().item())[:4]
    torch.testing.assert_close(own[0], vectors[others].mean(dim=0))


def test_the_oldest_examples_are_forgotten_first():
    memory = ExampleMemory(1, size=5)
    for first in range(0, 9, 3):  # 0 to 8, of which the last five stay
        some = torch.arange(first, first + 3)
        memory.add(Looked(some[:, None].float(), -some[:, None].float()), some)
    assert sorted(memory.numbers.tolist()) == [4, 5, 6, 7, 8]
    assert torch.equal(memory.questions[:, 0], memory.numbers.float())
    assert torch.equal(memory.found[:, 0], -memory.numbers.float())
    many = torch.arange(100, 112)
    memory.add(Looked(many[:, None].float(), many[:, None].float()), many)
    assert sorted(memory.numbers.tolist()) == [107, 108, 109, 110, 111]


def test_what_is_remembered_is_saved_with_the_weights():
    one = model(differential="loss")
    one.examples.add(one.look(*inputs()), torch.arange(3))
    again = model(differential="loss")
    assert not torch.equal(again.examples.found, one.examples.found)
    again.load_state_dict(one.state_dict())
    assert torch.equal(again.examples.found, one.examples.found)
    assert int(again.examples.next) == 3


@pytest.mark.parametrize("kind", KINDS)
def test_questions_that_share_a_picture_are_as_if_each_had_its_own(kind):
    one, (pixels, ids) = model(kind), inputs()
    which = torch.tensor([1, 0, 1])
    shared, apart = one(pixels[:2], ids, which), one(pixels[which], ids)
    torch.testing.assert_close(shared, apart, atol=1e-5, rtol=1e-5)


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
