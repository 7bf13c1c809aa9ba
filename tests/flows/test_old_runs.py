"""Run folders that version 0.1.0 wrote (commit c066c44) load and answer as they did then.

``tests/fixtures/runs-0.1.0`` was made by ``regard train`` of that version, 30 steps each on
built-in data; ``expected.json`` holds what its runs answered, by ``answers`` below. ``resumable``
was stopped after 20 of 40 steps. Dropout draws by the step since, so what is expected of it is what
it came to when that was changed, not the run that was never stopped.
"""

import json
import shutil
from pathlib import Path

import pytest

import regard
from regard.cli.main import main

OLD = Path(__file__).parent.parent / "fixtures" / "runs-0.1.0"
EXPECTED = json.loads((OLD / "expected.json").read_text())
LETTERS = ["a b c", "d d e f a b c"]
SENTENCES = ["john loves mary", "the animal did not cross the street because it was too tired"]
FRENCH = ["john aime mary", "l'animal n'a pas traversé la rue parce qu'il était trop fatigué"]


def of_sentences(run):
    look = run.explain(SENTENCES[0], FRENCH[0])
    return {
        "greedy": run.translate(SENTENCES, beam=1),
        "beam": run.translate(SENTENCES, beam=3),
        "scores": run.score(SENTENCES, FRENCH),
        "weights": look.weights("decoder.cross", layer=1).tolist(),
    }


def of_letters(run):
    return {"beam": run.translate(LETTERS, beam=3), "scores": run.score(LETTERS, LETTERS)}


def of_language(run):
    return {
        "scores": run.score(SENTENCES),
        "text": run.generate("the animal", max_new=6, temperature=0.0),
        "sampled": run.generate("the animal", max_new=6, seed=3),
    }


def of_labels(run):
    look = run.explain(SENTENCES[0])
    return {
        "probabilities": run.probabilities(SENTENCES).tolist(),
        "weights": look.weights(next(iter(look.attentions))).tolist(),
    }


def of_masks(run):
    filled = run.fill("the <mask> did not cross the street", n=3)
    return [list(guess) for guess in filled.masks[0]]


def of_vectors(run):
    return run.embed(SENTENCES).tolist()


def of_questions(run):
    found = run.answers([("who loves mary", SENTENCES[0]), ("what was tired", SENTENCES[1])], n=2)
    return [[one.as_json() for one in answers] for answers in found]


def answers(name, run):
    """What a run says; only public methods are called."""
    kind = {"gpt": of_language, "masked": of_masks, "search": of_vectors}
    kind |= {"sentiment": of_labels, "bilstm": of_labels, "questions": of_questions}
    kind |= {"transformer": of_sentences}
    return kind.get(name, of_letters)(run)


def assert_near(found, expected, tolerance=1e-5):
    """The same texts, numbers to five digits."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        for key, value in expected.items():
            assert_near(found[key], value, tolerance)
    elif isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_near(one, other, tolerance)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=tolerance, abs=tolerance)
    else:
        assert found == expected


@pytest.mark.parametrize("name", sorted(EXPECTED.keys() - {"resumable"}))
def test_an_old_run_answers_as_it_did(name):
    assert_near(json.loads(json.dumps(answers(name, regard.load(OLD / name)))), EXPECTED[name])


def test_an_old_training_goes_on(tmp_path, capsys):
    out = tmp_path / "resumable"
    shutil.copytree(OLD / "resumable", out)
    assert main(["train", str(OLD / "resumable.yaml"), "--out", str(out), "--resume"]) == 0
    assert "resuming at step 20" in capsys.readouterr().err
    # Twenty updates: processors with other vector units round otherwise, and that adds up.
    assert_near(answers("resumable", regard.load(out)), EXPECTED["resumable"], tolerance=1e-3)
