"""Heads of whole runs: measured in batches, ablated one by one."""

import math

import numpy as np
import pytest
import torch
from systems import untrained

from regard.core.errors import ConfigError
from regard.data.records import Pair
from regard.data.splits import Data
from regard.evaluation.text_metrics import bleu
from regard.inspection.heads import MEASURES
from regard.models.memory_network import TapeAttention
from regard.runs.heads import head_measures
from regard.tasks.translation_scores import gold_scores_by_head

PAIRS = (
    Pair("a b c d e", "e d c", ((4, 0), (3, 1), (2, 2)), ((3, 0),)),
    Pair("c a", "a c d b", ((0, 1), (1, 0))),
    Pair("b d a", "a", ((2, 0),), ((1, 0), (2, 0))),
    Pair("f g h f", "h g h a b", ((1, 1),)),
)
DATA = Data({"train": (), "valid": PAIRS, "test": PAIRS[:2]})


@pytest.fixture(scope="module")
def run():
    return untrained("transformer")


@pytest.fixture(scope="module")
def found(run):
    return head_measures(run, DATA)


def loss_of(run, pairs):
    """Sentence by sentence, from the public scores."""
    scores = run.score([pair.source for pair in pairs], [pair.target for pair in pairs])
    return -sum(scores) / sum(len(pair.target.split()) + 1 for pair in pairs)


def test_every_head_has_a_row_in_the_order_of_the_model(found):
    places = [(row["name"], row["layer"], row["head"]) for row in found.rows]
    names = ("encoder.self", "decoder.self", "decoder.cross")
    assert places == [(n, layer, h) for n in names for layer in (0, 1) for h in range(3)]
    assert found.n == found.facts["n_bleu"] == 4


def test_measures_of_a_batch_are_those_of_each_sentence_alone(run, found):
    """So padding changes nothing, whoever is in the batch."""
    seen = {}
    for pair in PAIRS:
        look = run.explain(pair.source, pair.target)
        for name, layers in look.attentions.items():
            for layer, heads in enumerate(layers):
                # Cross: the row that writes the end token is no word's; self: special rows.
                n = heads.shape[1]
                rows = {"encoder.self": range(n - 1), "decoder.self": range(1, n)}
                for head, weights in enumerate(heads):
                    one = seen.setdefault((name, layer, head), {"entropy": [], "self": []})
                    for t in rows.get(name, range(n - 1)):
                        w = weights[t].astype(float)
                        one["entropy"].append(-sum(x * math.log2(x) for x in w if x > 0))
                        one["self"].append(w[t] if name != "decoder.cross" else 0)
    for row in found.rows:
        one = seen[row["name"], row["layer"], row["head"]]
        assert row["entropy"] == pytest.approx(np.mean(one["entropy"]), rel=1e-5)
        if row["name"] != "decoder.cross":
            assert row["self"] == pytest.approx(np.mean(one["self"]), rel=1e-5)


def test_how_sentences_are_batched_changes_nothing(run, found, monkeypatch):
    monkeypatch.setattr("regard.tasks.translation.BATCH_TOKENS", 8)
    again = head_measures(run, DATA)
    for one, other in zip(again.rows, found.rows, strict=True):
        for key in MEASURES:
            assert (one[key] is None) == (other[key] is None)
            assert one[key] is None or one[key] == pytest.approx(other[key], rel=1e-5)
    for one, other in zip(again.distances, found.distances, strict=True):
        known = [(a, b) for a, b in zip(one, other, strict=True) if b is not None]
        assert [a for a, _ in known] == pytest.approx([b for _, b in known], rel=1e-4)


def test_a_notebook_shows_the_map_and_a_table_an_attention(found):
    html = found._repr_html_()
    assert html.startswith("<svg")
    assert html.count("<table>") == 3


def test_what_has_no_meaning_is_none(found):
    for row in found.rows:
        missing = {key for key in MEASURES if row[key] is None}
        cross, decoder = row["name"] == "decoder.cross", row["name"] == "decoder.self"
        assert missing == (
            {"self", "previous", "next"} if cross else {"separator"} if decoder else set()
        )
        assert (row["aer"] is None) != cross
        assert (row["antecedent"] is None) != (row["name"] == "encoder.self")


@pytest.mark.parametrize(
    ("name", "layer", "head"),
    [("encoder.self", 1, 0), ("decoder.self", 0, 2), ("decoder.cross", 1, 1)],
)
def test_a_head_is_worth_what_its_columns_of_the_last_projection_are(run, found, name, layer, head):
    plain = loss_of(run, PAIRS)
    assert found.scores.get("loss") == pytest.approx(plain, rel=1e-5)
    texts = [pair.target for pair in PAIRS]
    assert found.scores.get("bleu") == bleu(run.translate([p.source for p in PAIRS], beam=1), texts)
    side, kind = name.split(".")
    block = getattr(run.model, side).layers[layer]
    matrix = getattr(block, f"{kind}_attention").to_out.weight
    kept = matrix.detach().clone()
    with torch.no_grad():
        matrix[:, 4 * head : 4 * (head + 1)] = 0
    without = loss_of(run, PAIRS)
    written = bleu(run.translate([p.source for p in PAIRS], beam=1), texts)
    with torch.no_grad():
        matrix.copy_(kept)
    row = next(r for r in found.rows if (r["name"], r["layer"], r["head"]) == (name, layer, head))
    assert abs(without - plain) > 1e-4
    assert row["loss_change"] == pytest.approx(without - plain, abs=2e-6)
    assert row["bleu_change"] == pytest.approx(written - found.scores.get("bleu"))


def test_heads_are_compared_within_one_name_only(found):
    names = [row["name"] for row in found.rows]
    for i, row in enumerate(found.distances):
        assert [one is not None for one in row] == [name == names[i] for name in names]
        assert row[i] == 0
    for number in set(found.clusters):
        assert len({n for n, c in zip(names, found.clusters, strict=True) if c == number}) == 1
    for name, other in zip(names[::6], names[6::6], strict=False):
        right = max(x for (x, _), n in zip(found.map, names, strict=True) if n == name)
        left = min(x for (x, _), n in zip(found.map, names, strict=True) if n == other)
        assert right < left  # side by side


def test_alignments_and_antecedents_are_scored_head_by_head(run, found):
    """By hand from the look: which source word weighs most in a row, the end token left out."""
    for row in found.rows:
        if row["name"] == "decoder.cross":
            hits = links = 0
            for pair in PAIRS:
                weights = run.explain(pair.source, pair.target).weights(row["name"], row["layer"])
                n_source, n_target = len(pair.source.split()), len(pair.target.split())
                best = weights[row["head"], :n_target, :n_source].argmax(axis=1)
                hits += 2 * sum((s, t) in pair.alignment for t, s in enumerate(best.tolist()))
                links += n_target + len(pair.alignment)
            assert row["aer"] == pytest.approx(1 - hits / links)
    right = dict.fromkeys([row["head"] for row in found.rows], 0)
    for pair in (PAIRS[0], PAIRS[2]):
        weights = run.explain(pair.source).weights("encoder.self", 1)
        for pronoun, antecedent in pair.antecedents:
            for head in right:
                w = weights[head, pronoun, :-1].copy()
                w[pronoun] = 0
                right[head] += w.argmax() == antecedent
    got = {
        r["head"]: r["antecedent"] for r in found.rows if r["antecedent"] is not None and r["layer"]
    }
    assert got == pytest.approx({head: n / 3 for head, n in right.items()})


def test_labels_are_those_of_the_attention_scores(run):
    assert "decoder.cross layer 1 head 1" in gold_scores_by_head(run, PAIRS)["aer"]


def test_the_model_is_left_as_it_was(run):
    before = run.translate("a b c", n_best=2, with_scores=True)
    head_measures(run, DATA, n=1)
    assert run.translate("a b c", n_best=2, with_scores=True) == before
    assert not any(getattr(module, "watched", False) for module in run.model.modules())


def test_only_so_many_sentences_of_the_split_are_measured(run):
    ticks = []
    one = head_measures(run, DATA, split="test", n=1, tick=lambda *done: ticks.append(done))
    assert (one.split, one.n, one.facts["n_bleu"]) == ("test", 1, 1)
    assert one.scores.get("loss") == pytest.approx(loss_of(run, PAIRS[:1]), rel=1e-5)
    assert ticks == [(i, 18) for i in range(1, 19)]


@pytest.mark.parametrize("preset", ["bahdanau2015", "luong2015", "cs224n2019", "graves2014"])
def test_a_single_head_is_measured_too(preset):
    found = head_measures(untrained(preset), DATA)
    (row,) = found.rows
    assert (row["name"], row["layer"], row["head"]) == ("decoder.cross", 0, 0)
    assert row["loss_change"] != 0
    assert (found.distances, found.map, found.clusters) == (((0.0,),), ((0.0, 0.0),), (0,))


def test_a_tape_is_worth_what_is_lost_when_nothing_is_recalled(monkeypatch):
    run = untrained("cheng2016")
    found = head_measures(run, DATA)
    worth = {row["name"]: row["loss_change"] for row in found.rows}
    recall = TapeAttention.recall
    for side in ("encoder", "decoder"):
        own = getattr(run.model, side).self_attention
        monkeypatch.setattr(
            TapeAttention,
            "recall",
            lambda tape, *given, own=own: recall(tape, *given) * float(tape is not own),
        )
        without = loss_of(run, PAIRS)
        assert abs(without - found.scores.get("loss")) > 1e-6
        assert worth[f"{side}.self"] == pytest.approx(without - found.scores.get("loss"), abs=2e-6)
    assert abs(worth["decoder.cross"]) > 1e-6


def test_a_system_without_attention_is_refused_in_one_sentence():
    with pytest.raises(ConfigError, match="no attention.*choose a system that attends"):
        head_measures(untrained("sutskever2014"), DATA)


def test_what_cannot_be_measured_is_said(run):
    with pytest.raises(ConfigError, match="did you mean 'valid'"):
        head_measures(run, DATA, split="valdi")
    with pytest.raises(ConfigError, match="at least 1 sentence"):
        head_measures(run, DATA, n=0)
    with pytest.raises(ValueError, match="split 'train' has no sentence"):
        head_measures(run, DATA, split="train")
