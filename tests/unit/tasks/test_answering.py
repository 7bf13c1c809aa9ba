"""Spans: what they cost, and what is said of them, in the letters of the text."""

import math

import numpy as np
import pytest
import torch
from encoders import settings
from text_runs import questions
from torch.utils.flop_counter import FlopCounterMode

from regard.core.errors import DataError
from regard.data.batch import Batch
from regard.data.records import Question
from regard.data.row_batches import Layout, span_batch
from regard.kernels.call import reference_only
from regard.models.encoder import Encoder
from regard.models.settings import EncoderConfig
from regard.runs.prepare import prepare
from regard.tasks.answers import Asked, Learned, SpanLoss, span_loss
from regard.tasks.recipe import recipe_from
from regard.text.settings import TextSettings
from regard.text.tokenizer import Tokenizer
from regard.training.flops import encoder_flops

CPU = torch.device("cpu")
SIZES = {"n_vocab": 13, "d_model": 8, "n_layers": 2, "n_heads": 2, "d_ff": 12, "max_len": 16}
IDS = torch.tensor([[1, 5, 2, 6, 7, 8, 2], [1, 5, 2, 9, 2, 0, 0]])
ALLOWED = torch.tensor([[1, 0, 0, 1, 1, 1, 0], [1, 0, 0, 1, 0, 0, 0]]).bool()


def batch_of(ids, segments, allowed, spans):
    tensors = {"ids": ids, "segments": segments, "allowed": allowed, "spans": spans}
    return Batch(tensors, tuple(range(len(ids))), count=len(ids))


@pytest.fixture
def model():
    torch.manual_seed(3)
    made = Encoder(EncoderConfig(**SIZES, dropout=0.0, head="spans")).double().eval()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter)
    return made


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_start_and_end_cost_the_mean_of_their_cross_entropies_over_the_text(model, smoothing):
    spans = [[4, 5], [0, 0]]
    batch = batch_of(IDS, (IDS > 0).long(), ALLOWED, torch.tensor(spans))
    logits = model(IDS, batch.segments).detach()
    expected = 0.0
    for row, both in enumerate(spans):
        places = [i for i in range(7) if ALLOWED[row, i]]
        for side, right in enumerate(both):
            total = sum(math.exp(logits[row, i, side]) for i in places)
            for i in places:
                wanted = smoothing / len(places) + (1 - smoothing) * (i == right)
                expected -= wanted * math.log(math.exp(logits[row, i, side]) / total) / 2
    assert SpanLoss(smoothing)(model, batch).total.item() == pytest.approx(expected, rel=1e-5)


def test_a_step_costs_what_torch_counts(model):
    ids = torch.ones(1, 11, dtype=torch.long)
    with torch.no_grad(), reference_only(), FlopCounterMode(display=False) as counter:
        model(ids)
    counted = encoder_flops(model).training(1, 11, 11)
    assert counted == pytest.approx(3 * counter.get_total_flops(), rel=1e-9)


def word_tokenizer(kind="word"):
    texts = ["who met Bob ? Ann met Bob, and 🙂 Eve   ran .", "a b c d e f g h i j"]
    return Tokenizer.train(texts * 2, TextSettings(kind=kind, vocab_size=400), masking=True)


def asked(pairs, max_len=32, kind="word"):
    tokenizer = word_tokenizer(kind)
    return Asked.of(pairs, tokenizer, Layout(tokenizer.specials, max_len))


def logits_of(rows, lengths, best):
    """Zeros, and a high score where a row's answer shall start and end."""
    found = torch.zeros(len(rows), lengths, 2)
    for row, (start, end, score) in best.items():
        found[row, start, 0] = found[row, end, 1] = score
    return [(np.array(rows), found)]


def test_an_answer_is_the_very_substring_of_the_text():
    context = "  Ann met  Bob, and Eve ran."
    one = asked([("who?", context)])
    # begin who ? end | Ann met Bob , and Eve ran . | end: the text begins at 4
    (found,) = one.answers(logits_of([0], 13, {0: (5, 6, 9.0)}))
    (answer,) = found
    assert answer.text == context[answer.start : answer.end] == "met  Bob"
    n = 9  # eight words of the text, and the place that says "not here"
    share = math.exp(9) / (math.exp(9) + n - 1)
    assert answer.probability == pytest.approx(share**2)


def test_question_marks_and_ends_are_never_answers():
    one = asked([("who met Bob?", "Ann ran")])
    # begin who met Bob ? end | Ann ran | end
    every = {0: (1, 1, 50.0)}
    logits = logits_of([0], 9, every)
    logits[0][1][0, 8] = 60.0  # the last end
    (found,) = one.answers(logits, n=9)
    assert {answer.text for answer in found} == {"Ann", "ran", "Ann ran"}


def test_the_best_come_first_and_each_once():
    one = asked([("who?", "Ann met Bob")])
    logits = torch.zeros(1, 8, 2)
    logits[0, 4:7, 0] = torch.tensor([3.0, 1.0, 2.0])
    logits[0, 4:7, 1] = torch.tensor([1.0, 0.0, 2.5])
    (found,) = one.answers([(np.array([0]), logits)], n=3)
    # sums: 0-2: 5.5, 2-2: 4.5, 0-0: 4, 1-2: 3.5
    assert [answer.text for answer in found] == ["Ann met Bob", "Bob", "Ann"]
    assert [a.probability for a in found] == sorted((a.probability for a in found), reverse=True)


def test_of_windows_the_surest_speaks_and_an_answer_in_two_is_said_once():
    one = asked([("?", "a b c d e f g h i j")], max_len=8)  # begin ? end | four words | end
    assert one.windows.firsts.tolist() == [0, 2, 4, 6]
    best = {1: (4, 4, 4.0), 2: (3, 3, 6.0), 0: (5, 5, 5.0)}
    (found,) = one.answers(logits_of([0, 1, 2, 3], 8, best), n=40)
    assert [(answer.text, answer.start) for answer in found[:2]] == [("e", 8), ("c", 4)]
    assert len({(answer.start, answer.end) for answer in found}) == len(found)
    share = math.exp(5) / (math.exp(5) + 4)  # of c in the first window; the second doubts it
    assert found[1].probability == pytest.approx(share**2)


def test_a_window_that_says_not_here_is_passed_over():
    one = asked([("?", "a b c d e f")], max_len=8)
    logits = logits_of([0, 1], 8, {0: (4, 4, 5.0), 1: (3, 3, 3.0)})
    logits[0][1][0, 0] = 9.0
    (found,) = one.answers(logits)
    assert found[0].text == "c"


@pytest.mark.parametrize("kind", ["bpe", "char"])
def test_white_space_and_parts_of_a_character_are_no_answers(kind):
    context = " 🙂  Ann "
    one = asked([("who?", context)], max_len=64, kind=kind)
    n = int(one.windows.table.target.lengths[0])
    if kind == "bpe":
        assert any(context[begin:end] == " Ann" for begin, end in one.offsets[0])
    (found,) = one.answers([(np.array([0]), torch.zeros(1, 60, 2))], n=n * n)
    texts = [answer.text for answer in found]
    assert len({(a.start, a.end) for a in found}) == len(found)
    assert "🙂" in texts
    assert "Ann" in texts
    for answer in found:
        assert answer.text == context[answer.start : answer.end] == answer.text.strip() != ""


def test_a_text_without_any_word_is_refused():
    one = asked([("who?", " \u200b ")], kind="word")
    empty = Asked(one.contexts, [[]], [torch.zeros(0, 2).bool()], one.windows, one.layout)
    with pytest.raises(DataError, match="no word in the text .* that the model can read"):
        empty.answers([])


def test_what_is_learned_is_what_would_be_said():
    """A model that is sure of the gold positions gives the answers of the data, in all windows."""
    tokenizer = word_tokenizer()
    context = "a b c d e f g h i j"
    questions = [
        Question.of("who?", context, (answer,), context.index(answer))
        for answer in ("a", "c d", "j", "g h")
    ]
    learned = Learned.of(questions, tokenizer, Layout(tokenizer.specials, 10))
    table = learned.asked.windows.table
    assert len(table) > len(questions)
    batch = span_batch(
        table, np.arange(len(table)), layout=learned.asked.layout, spans=learned.spans
    )
    logits = torch.zeros(*batch.ids.shape, 2)
    for row, (start, end) in enumerate(batch.spans.tolist()):
        logits[row, start, 0] = logits[row, end, 1] = 20.0
    found = learned.asked.answers([(np.arange(len(table)), logits)])
    assert [best.text for (best,) in found] == ["a", "c d", "j", "g h"]
    assert learned.notes("train") == [f"train: 4 texts read in {len(table)} windows"]
    long = Learned.of(
        [Question.of("who met Bob? " * 3, context, ("a b c d e f",), 0)],
        tokenizer,
        Layout(tokenizer.specials, 10),
    )
    told = long.notes("x")
    assert "x: 1 question cut to half of max_len" in told
    assert "x: 1 answer longer than half a window, not learned" in told


def test_questions_are_validated_by_their_plain_loss(tmp_path):
    raw = settings("answers", tmp_path, questions, n=40)
    plain, smoothed = (
        prepare(recipe_from(raw | {"train": raw["train"] | {"label_smoothing": amount}}), CPU)
        for amount in (0.0, 0.3)
    )
    model = plain.model.eval()
    assert smoothed.validation()(model) == plain.validation()(model)
    batch = plain.stream().next()
    assert smoothed.objective()(model, batch) != plain.objective()(model, batch)


def test_a_text_without_any_token_has_no_answer():
    one = asked([("who?", "")])
    with pytest.raises(DataError, match="there is no word in the text ''"):
        one.answers(logits_of([0], 4, {}))


@pytest.mark.parametrize("n_segments", [0, 1])
def test_questions_are_read_by_a_model_that_tells_no_texts_apart(n_segments):
    one = asked([("who?", "Ann ran")])
    sizes = {**SIZES, "n_vocab": 40, "head": "spans", "n_segments": n_segments}
    model = Encoder(EncoderConfig(**sizes)).eval()
    ids, segments = one.layout.texts(one.windows.table, np.array([0]))
    with torch.inference_mode():
        ((rows, scores),) = one.read(model, CPU, 100)
        assert torch.equal(scores, model(ids))
        spans = torch.tensor([[4, 4]])
        batch = batch_of(ids, segments, segments.bool(), spans)
        expected = span_loss(model(ids), batch)
        assert torch.equal(SpanLoss(0.0)(model, batch).total, expected)
    assert rows.tolist() == [0]
