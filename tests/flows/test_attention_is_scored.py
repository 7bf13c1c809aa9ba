"""Alignments and antecedents of real runs are scored against the data's own."""

import numpy as np
import pytest
import torch

import regard
from regard.data.records import Pair
from regard.evaluation.attention import words_matrix
from regard.inspection.capture import watch
from regard.recipes.recipe import load_recipe
from regard.runs.train import train
from regard.tasks.translation_scores import attention_scores, watched_words


@pytest.fixture(scope="module")
def copying(tmp_path_factory):
    """A model that has begun to copy: enough for its attention to point somewhere."""
    small = ["d_model=32", "n_heads=2", "d_ff=64", "max_steps=250", "n_train=3000", "lr=3e-3"]
    recipe = load_recipe("copy", [*small, "n_layers=1"])
    return train(recipe, tmp_path_factory.mktemp("runs") / "copy")


def test_a_copying_model_aligns_better_than_chance(copying):
    scores = copying.evaluations["test"].scores
    assert scores["aer"] < scores["aer_shuffled"] - 0.2
    assert scores["aer_by"].startswith("decoder.cross layer 0")
    assert "antecedent_accuracy" not in scores  # letters have none


def test_weights_are_those_of_the_sentence_alone(copying):
    run = copying.run
    pairs = [
        Pair("a b c", "a b c", ((0, 0), (1, 1), (2, 2))),
        Pair("d e f g h", "d e", ((0, 0), (1, 1))),
    ]
    watched = watched_words(run, pairs, "decoder.cross", [pair.alignment for pair in pairs])
    for pair, got in zip(pairs, watched, strict=True):
        source = torch.tensor([[*run.tokenizers.source.encode(pair.source), 2]])
        target = torch.tensor([[1, *run.tokenizers.target.encode(pair.target)]])
        with watch(run.model) as views:
            run.model(source, target)
        heads = views["decoder.cross", 0].weights()[0].numpy()
        n_source, n_target = len(pair.source.split()), len(pair.target.split())
        matrix = words_matrix(heads, [*range(n_source), None], [*range(n_target), None])
        for head in (0, 1):
            np.testing.assert_allclose(
                got.weights[f"decoder.cross layer 0 head {head}"], matrix[head], atol=1e-6
            )
        mean = got.weights["decoder.cross layer 0 mean"]
        np.testing.assert_allclose(mean, matrix.mean(axis=0), atol=1e-6)
        assert got.links == pair.alignment


def test_antecedents_are_scored_in_the_encoder(copying):
    pairs = [Pair("a b c", "a b c", None, ((2, 0),)), Pair("d e f", "d e f", None, ((2, 1),))]
    run = copying.run
    found = {}
    for pair in pairs:
        source = torch.tensor([[*run.tokenizers.source.encode(pair.source), 2]])
        with watch(run.model) as views:
            run.model(source, torch.tensor([[1]]))
        heads = views["encoder.self", 0].weights()[0]
        ((pronoun, antecedent),) = pair.antecedents
        for name, one in {"head 0": heads[0], "head 1": heads[1], "mean": heads.mean(0)}.items():
            hit = one[pronoun, :pronoun].argmax().item() == antecedent
            found[name] = found.get(name, 0) + hit / 2
    scores = attention_scores(run, pairs, pairs)
    assert scores["antecedent_accuracy"] == max(found.values())
    assert scores["antecedent_accuracy_by"].startswith("encoder.self layer 0")
    assert "aer" not in scores


def test_nothing_is_scored_where_nothing_is_known(copying):
    pairs = [Pair("a b", "a b")]
    assert attention_scores(copying.run, pairs, pairs) == {}


def test_evaluation_reports_tags_apart(copying):
    from regard.tasks.translation_scores import evaluate_pairs

    texts = ["a b c", "b c d", "e f"]
    right = copying.run.translate(texts)
    pairs = [
        Pair(texts[0], right[0], tags=frozenset({"odd"})),
        Pair(texts[1], "wrong", tags=frozenset({"odd"})),
        Pair(texts[2], right[2]),
    ]
    scores = evaluate_pairs(copying.run, pairs, split="mine").scores
    assert scores["exact_match_by_tag"] == {
        "odd": {"n": 2, "exact_match": 0.5},
        "untagged": {"n": 1, "exact_match": 1.0},
    }
    assert scores["exact_match"] == pytest.approx(2 / 3)


def test_a_run_can_be_loaded_from_a_string(copying):
    assert regard.load(str(copying.folder.path)).task == "translation"
