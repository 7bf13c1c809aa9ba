"""Heads of encoders and language models: measured in batches, ablated one by one."""

import math

import numpy as np
import pytest
from looked_at import LABELLED, NAMES, encoder_run, writer_run

from regard.core.errors import ConfigError, DataError
from regard.inspection.edits import Ablate, edited
from regard.inspection.heads import MEASURES
from regard.runs.heads import head_measures, measured
from regard.tasks.base import TASKS
from regard.tasks.language import writer_readings
from regard.text.specials import BEGIN_ID, END_ID, PAD_ID
from regard.visual.heads import cost_of, head_map, heads_text, plain_table

TEXTS = ["a b c d e", "c a", "b d a", "h g h a"]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "train.tsv").write_text(LABELLED)
    lines = [f'{{"text": "{text}"}}' for text in TEXTS]
    (tmp_path / "train.jsonl").write_text("\n".join(lines))
    return tmp_path


def text_measures(run, texts, name, n=200):
    return measured(run, TASKS[run.task].given_subject(run, texts, name, n))


def by_hand(run, texts):
    """Entropy, and weight on the word before and on the first place, of every head, by loops."""
    seen = {}
    for text in texts:
        look = run.explain(text) if run.task != "language" else run.explain(text, "")
        ((name, layers),) = look.attentions.items()
        rows = look.tokens_of(name)[0]
        words = [t for t, row in enumerate(rows) if row not in ("<s>", "</s>")]
        for layer, heads in enumerate(layers):
            for head, weights in enumerate(heads.astype(float)):
                one = seen.setdefault((layer, head), {"entropy": [], "previous": [], "first": []})
                for t in words:
                    one["entropy"].append(-sum(x * math.log2(x) for x in weights[t] if x > 0))
                    one["first"].append(weights[t, 0])
                    if t - 1 in words:
                        one["previous"].append(weights[t, t - 1])
    return {
        place: {key: np.mean(values) for key, values in one.items()} for place, one in seen.items()
    }


@pytest.mark.parametrize("task", ["classification", "masked", "similarity", "language"])
def test_measures_of_a_batch_are_those_of_each_text_alone(task):
    run = writer_run() if task == "language" else encoder_run(task)
    found = text_measures(run, TEXTS, name="texts")
    expected = by_hand(run, TEXTS)
    assert len(found.rows) == len(expected)
    assert {row["name"] for row in found.rows} == {
        "decoder.self" if task == "language" else "encoder.self"
    }
    for row in found.rows:
        for key, value in expected[row["layer"], row["head"]].items():
            assert row[key] == pytest.approx(value, rel=1e-4), key


def test_how_texts_are_batched_changes_nothing(monkeypatch):
    run = encoder_run("similarity")
    whole = text_measures(run, TEXTS, name="texts")
    monkeypatch.setattr("regard.tasks.texts.WEIGHTS", 6 * 50)  # a text at a time
    apart = text_measures(run, TEXTS, name="texts")
    for one, other in zip(whole.rows, apart.rows, strict=True):
        for key in MEASURES:
            assert one[key] == pytest.approx(other[key], rel=1e-4)


def test_a_classifiers_heads_are_worth_loss_and_accuracy(folder):
    run = encoder_run("classification", data=folder)
    found = head_measures(run, n=3)
    assert (found.task, found.split, found.n, found.scores.get("bleu")) == (
        "classification",
        "valid",
        3,
        None,
    )
    texts = [line.split("\t") for line in LABELLED.splitlines()[:3]]

    def scores():
        shares = run.probabilities([text for text, _ in texts])
        right = [row[NAMES.index(label)] for row, (_, label) in zip(shares, texts, strict=True)]
        best = [NAMES[row.argmax()] == label for row, (_, label) in zip(shares, texts, strict=True)]
        return -np.mean(np.log(right)), np.mean(best)

    loss, accuracy = scores()
    assert (found.scores.get("loss"), found.scores["accuracy"]) == pytest.approx(
        (loss, accuracy), rel=1e-5
    )
    for row in found.rows:
        with edited(run.model, [Ablate(row["name"], row["layer"], row["head"])]):
            without = scores()
        changes = (row["loss_change"], row["accuracy_change"])
        assert changes == pytest.approx((without[0] - loss, without[1] - accuracy), abs=1e-5)
    assert scores()[0] == loss


def test_a_language_models_heads_are_worth_loss_and_perplexity(folder):
    run = writer_run(data=folder)
    found = head_measures(run, n=2)
    expected = run.evaluate_texts(TEXTS[:2], split="valid").scores
    assert found.scores.get("loss") == expected["loss"]
    assert found.scores["perplexity"] == expected["perplexity"]
    row = found.rows[5]
    with edited(run.model, [Ablate(row["name"], row["layer"], row["head"])]):
        without = run.evaluate_texts(TEXTS[:2], split="valid").scores
    assert row["perplexity_change"] == without["perplexity"] - expected["perplexity"]


def test_without_labels_it_is_told_how_far_vectors_turn():
    run = encoder_run("classification")
    found = text_measures(run, TEXTS, name="texts")
    before = run.embed(TEXTS).astype(float)
    for row in found.rows:
        with edited(run.model, [Ablate(row["name"], row["layer"], row["head"])]):
            after = run.embed(TEXTS).astype(float)
        turn = 1 - np.mean((before * after).sum(axis=1))
        assert row["moved_change"] == pytest.approx(turn, abs=1e-5)
        assert row["moved_change"] > 0
        assert row["loss_change"] is None


def test_specials_are_told_by_the_marks_of_the_tokenizer_and_padding_by_its_place():
    run = writer_run()  # whose padding might as well be its end
    (reading,) = writer_readings(run, ["a b", "c"])
    rows, columns = reading.ids("decoder.self")
    assert rows is columns
    assert rows[0, 0] == END_ID
    assert rows[1].tolist()[2:] == [PAD_ID]
    assert not np.isin(rows[:, 1], [BEGIN_ID, END_ID, PAD_ID]).any()


def test_heads_of_an_imported_classifier_are_measured_on_texts_or_on_pairs():
    run = encoder_run("classification", pairs=None)
    pairs = [f"{text}\t{text}" for text in TEXTS]
    told = text_measures(encoder_run("classification", pairs=True), pairs, name="texts")
    assert text_measures(run, pairs, name="texts").as_json() == told.as_json()
    assert text_measures(run, TEXTS, name="texts").as_json() != told.as_json()


def test_only_so_many_texts_are_measured_and_empty_ones_are_none():
    found = text_measures(encoder_run("masked"), ["", *TEXTS], name="texts", n=2)
    assert (found.n, found.split) == (2, "texts")
    with pytest.raises(DataError, match="texts has no text"):
        text_measures(encoder_run("masked"), ["", " "], name="texts")


def test_pairs_have_a_tab_between_them():
    run = encoder_run("classification", pairs=True)
    assert text_measures(run, ["a b\tc", "d\te f"], name="pairs").n == 2
    with pytest.raises(
        DataError, match="pairs: this run reads pairs, and there is no tab in 'a b'"
    ):
        text_measures(run, ["a b"], name="pairs")


def test_what_is_wrong_is_told(folder):
    run = encoder_run("classification", data=folder)
    with pytest.raises(ConfigError, match="did you mean 'valid'"):
        head_measures(run, split="valdi")
    with pytest.raises(ConfigError, match="at least 1 sentence, not 0"):
        head_measures(run, n=0)
    with pytest.raises(ConfigError, match="did you mean 'valid'"):
        head_measures(writer_run(data=folder), split="valdi")
    with pytest.raises(
        DataError, match="nowhere was imported and has no data of its own; .*--texts"
    ):
        head_measures(encoder_run("classification"))


def test_they_are_shown_by_what_the_run_is_judged_by(folder):
    found = head_measures(encoder_run("classification", data=folder)).as_json()
    text = heads_text(found, 100)
    assert "Δacc" in text
    assert "BLEU" not in text
    assert f"4 texts of valid; whole model: loss {found['loss']:.3f}, accuracy" in text
    assert "loss added when" in " ".join(head_map(found).split())
    assert plain_table(found).header[-4:] == ["accuracy_change", "cluster", "x", "y"]
    moved = text_measures(encoder_run("similarity"), TEXTS, name="texts").as_json()
    assert "moved" in heads_text(moved, 100)
    assert "how far vectors turn when" in " ".join(head_map(moved).split())
    assert cost_of(moved)[0].key == "moved_change"


def test_a_score_that_falls_is_a_cost():
    rows = [{"loss_change": None, "accuracy_change": -0.25}]
    column, costs = cost_of({"rows": rows})
    assert (column.key, costs) == ("accuracy_change", [0.25])
