import pytest
import torch

from regard import lab
from regard.lab.claims.future import (
    ASKED,
    GIVEN,
    SOURCE,
    _ids,
    _seen_pairs,
    _sensitivity,
    _transformer,
)
from regard.lab.language import END, START, OneAttention, language, written


@pytest.fixture(scope="module")
def result():
    return lab.future(steps=120, n_train=300)


def test_the_mask_hides_all_that_lies_ahead_and_nothing_behind(result):
    assert result.verdict
    assert result.numbers["decoder: largest gradient from a word ahead"] == 0
    assert result.numbers["decoder: smallest gradient from a word behind"] > 1e-4
    assert result.numbers["mask taken away: smallest gradient from a word ahead"] > 1e-4


def test_without_the_mask_the_decoder_sees_the_future():
    result = lab.future(masked=False, n_layers=1, steps=20, n_train=100)
    assert not result.verdict
    assert "Not seen here: the mask hides what lies ahead" in result.finding
    assert result.numbers["decoder: largest gradient from a word ahead"] > 1e-4


def test_a_language_model_that_sees_ahead_learns_to_look_and_not_to_write(result):
    numbers = result.numbers
    masked, cheat = (f"language model, {name}" for name in ("asked", "no mask"))
    assert numbers[f"{cheat}: training loss"] < numbers[f"{masked}: training loss"] / 2
    alone = "loss when the next word is not there"
    assert numbers[f"{cheat}: {alone}"] > numbers[f"{masked}: {alone}"] + 1
    pairs = "pairs written that were ever seen"
    assert numbers[f"{cheat}: {pairs}"] < numbers[f"{masked}: {pairs}"] - 0.1


def test_with_one_attention_a_mask_changes_nothing_for_who_writes():
    model = OneAttention(10, 8)
    ids = torch.tensor([[1, 5, 3, 7]])
    last = model(ids, masked=False)[:, -1]
    assert torch.allclose(model(ids, masked=True)[:, -1], last, atol=1e-6)
    assert not torch.allclose(model(ids, masked=True)[:, 0], model(ids, masked=False)[:, 0])


def test_padding_is_not_learned():
    model = OneAttention(10, 8)
    short = torch.tensor([[1, 5, 2]])
    padded = torch.tensor([[1, 5, 2, 0, 0]])
    assert model.loss(padded, masked=True).item() == pytest.approx(
        model.loss(short, masked=True).item(), rel=1e-5
    )


def test_a_language_is_framed_sentences_and_reads_back():
    known = language(50)
    assert known.words[known.train[0, 0]] == START
    first = known.text(known.train[0].tolist())
    assert START not in first
    assert END not in first
    ids = known.ids([START, *first.split(), END])
    assert torch.equal(known.train[0, : len(ids)], ids)


def test_pairs_written_are_looked_up_in_training():
    known = language(50)
    shown: list[int] = known.train[0].tolist()
    assert _seen_pairs(known, [shown]) == 1
    end = shown.index(known.words.index(END))
    assert _seen_pairs(known, [[shown[end - 1], shown[0], *shown[end:]]]) == 0


def test_writing_is_the_same_for_a_seed():
    known = language(50)
    model = OneAttention(len(known.words), known.train.shape[1])
    first, again = (written(model, known, 2, masked=True, seed=3) for _ in range(2))
    assert first == again
    assert all(known.words[row[0]] == START for row in first)


def test_gradients_are_slopes():
    model = _transformer(1, seed=0)
    embedding = model.decoder.embedding

    def chance(nudge):
        handle = embedding.register_forward_hook(lambda _module, _given, out: out + nudge)
        with torch.no_grad():
            logits = model(_ids(SOURCE), _ids(GIVEN))
        handle.remove()
        return logits.log_softmax(dim=-1)[0, 2, _ids(ASKED)[0, 2]].item()

    slopes = []
    for d in range(32):  # of the prediction at 2 by the word at 1
        nudge = torch.zeros(1, 4, 32, dtype=torch.float64)
        nudge[0, 1, d] = 1e-5
        slopes.append((chance(nudge) - chance(-nudge)) / 2e-5)
    by_hand = torch.tensor(slopes).norm().item()
    assert _sensitivity(model, masked=True)[2, 1].item() == pytest.approx(by_hand, rel=1e-5)


def test_the_mask_is_back_afterwards():
    model = _transformer(2, seed=0)
    before = model(_ids(SOURCE), _ids(GIVEN))
    _sensitivity(model, masked=False)
    assert torch.equal(model(_ids(SOURCE), _ids(GIVEN)), before)
