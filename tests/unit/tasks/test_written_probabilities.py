"""A look tells how probable each written token was, whatever wrote it."""

import pytest
import torch
from systems import SYSTEMS, untrained
from text_runs import short_run

import regard


@pytest.mark.parametrize(("preset", "changes"), SYSTEMS, ids=str)
def test_the_tokens_of_a_translation_have_their_probabilities(preset, changes):
    run = untrained(preset, **changes)
    look = run.explain("a b c", "c a")
    (judged,) = run.token_scores(["a b c"], ["c a"])
    found = look.as_json()
    assert found["probabilities"] == pytest.approx(judged.log_probs.exp().tolist(), rel=1e-4)
    assert len(found["probabilities"]) == len(found["target_tokens"]) == 3
    for token, share, others in zip(
        look.target_tokens, *look.written, strict=True
    ):  # the best first, itself among them where it is one of the best
        shares = [one.probability for one in others]
        assert shares == sorted(shares, reverse=True)
        assert {one.text: one.probability for one in others}.get(token, share) == share


def test_the_terminal_shows_them_below_the_answer():
    look = untrained("transformer").explain("a b c", "c a")
    _, answer, told, *_ = str(look).split("\n")
    assert answer == "c a"
    shares = [f"{100 * one:.1f} %" for one in look.written.probabilities]
    assert told == f"c {shares[0]}, a {shares[1]}, </s> {shares[2]}"


def test_what_a_language_model_writes_has_them_too(tmp_path):
    run = regard.load(short_run("language", tmp_path), device="cpu")
    look = run.explain("a c", " e g")
    before, both = run.framing.read("a c"), run.framing.read("a c e g")
    with torch.inference_mode():
        shares = run.model(torch.tensor([both])).softmax(dim=-1)[0]
    expected = [shares[t - 1, both[t]].item() for t in range(len(before), len(both))]
    assert look.target_tokens == ("e", "g")
    assert look.as_json()["probabilities"] == pytest.approx(expected, rel=1e-4)
    assert "e " in str(look).split("\n")[2]
    nothing = run.explain("a c", max_tokens=0).as_json()
    assert nothing["probabilities"] == nothing["alternatives"] == []


def test_under_an_edit_they_are_those_of_the_edited_model():
    run, edit = untrained("transformer"), {"kind": "temperature", "value": 9.0}
    plain, changed = (run.explain("a b c", "c a", edit=e).written for e in ((), edit))
    assert plain.probabilities != changed.probabilities
