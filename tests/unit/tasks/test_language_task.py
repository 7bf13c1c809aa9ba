import pytest
import torch
from language_models import language_model

from regard.data.batch import Batch
from regard.models.decoder import LanguageModel
from regard.recipes.recipe import load_recipe
from regard.runs.prepare import prepare
from regard.tasks.language import NextTokenLoss
from regard.tasks.recipe import recipe_from
from regard.training.flops import count_text, text_flops
from regard.training.losses import cross_entropy
from regard.training.settings import TrainSettings

CPU = torch.device("cpu")


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_loss_is_that_of_plain_logits_padding_or_not(smoothing):
    model = language_model()
    ids = torch.randint(0, 13, (4, 10))  # id 0 counts like any other
    loss = NextTokenLoss(TrainSettings(max_steps=1, label_smoothing=smoothing))
    found = loss(model, Batch({"target": ids}, (0, 1, 2, 3), count=36)).total
    wanted = cross_entropy(model(ids[:, :-1]), ids[:, 1:], pad=-1, label_smoothing=smoothing)
    torch.testing.assert_close(found, wanted)
    for one, other in zip(
        torch.autograd.grad(found, list(model.parameters()), retain_graph=True),
        torch.autograd.grad(wanted, list(model.parameters())),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("positions", ["learned", "rotary", "alibi"])
def test_flops_of_a_text_are_those_that_torch_counts_at_any_length(positions):
    model = language_model(positions=positions, max_len=70)
    formula = text_flops(model, model.config.longest)
    for n in (1, 7, 33, 70):
        assert formula.forward(n) == pytest.approx(count_text(model, n, "cpu"), rel=1e-9)
    assert formula.training(4, 33) == pytest.approx(12 * count_text(model, 33, "cpu"))


def test_flops_of_a_text_are_those_of_the_matrix_products():
    t, d, f, v, layers = 7, 24, 20, 13, 3
    each = 2 * t * (4 * d * d + 2 * d * f) + 2 * 2 * t * t * d
    assert count_text(language_model(), t, "cpu") == layers * each + 2 * t * d * v


@pytest.fixture
def raw():
    return {
        "task": "language",
        "data": {"world": "sentences", "n_train": 200},
        "text": {"kind": "word"},
        "model": {"preset": "gpt", "d_model": 16, "n_layers": 1, "n_heads": 2, "max_len": 12},
        "train": {"max_steps": 2000, "batch_tokens": 60},
    }


def test_what_is_prepared_is_texts_end_to_end_and_a_fresh_model(raw):
    prepared = prepare(recipe_from(raw), CPU)
    assert isinstance(prepared.model, LanguageModel)
    texts = prepared.splits["train"]
    assert prepared.framing.say(prepared.tape.ids.tolist()).split()[:3] == texts[0].split()[:3]
    assert prepared.size == {
        "training texts": len(texts),
        "training tokens": len(prepared.tape.ids),
        "vocabulary": prepared.model.config.n_vocab,
    }
    batch = prepared.stream().next()
    assert batch.target.shape == (5, 13)
    assert prepared.flops(batch) == pytest.approx(3 * 5 * count_text(prepared.model, 12))
    shown = prepared.example(batch.numbers[0])
    assert shown == prepared.framing.say(batch.target[0, :-1].tolist())
    again = prepare(recipe_from(raw), CPU)
    assert torch.equal(prepared.model.norm.weight, again.model.norm.weight)
    assert torch.equal(prepared.model.embedding.tokens.weight, again.model.embedding.tokens.weight)


def test_kernels_are_made_to_measure_on_a_gpu_unless_the_run_is_short(raw):
    assert not prepare(recipe_from(raw), CPU).compiled
    short = {**raw, "train": {**raw["train"], "max_steps": 10}}
    gpu = torch.device("cuda")
    for settings, expected in ((raw, True), (short, False)):
        prepared = prepare(recipe_from(settings), CPU)
        object.__setattr__(prepared, "device", gpu)
        assert prepared.compiled == prepared.captured == expected


def test_unknown_words_of_valid_are_told(raw):
    few = {**raw, "text": {"kind": "word", "vocab_size": 30}}
    (note,) = prepare(recipe_from(few), CPU).notes
    assert note.startswith("valid: ")
    assert note.endswith("are read as <unk>")


@pytest.mark.parametrize("name", ["gpt", "shakespeare", "wikitext-2"])
def test_recipes_of_language_models_are_whole(name):
    recipe = load_recipe(name)
    assert recipe.task == "language"
    assert recipe.model.preset == "gpt"
    assert recipe.train.label_smoothing == 0
