"""What Python tells a newcomer: few sentences, unknown words, the way out of a refusal."""

import json
import logging

import pytest
from letters import pairs, write_pairs

import regard
from regard.core.errors import CheckpointError
from regard.tasks.examples import EXAMPLES

# ------------------------------------------------------------------ few pairs


@pytest.fixture(scope="module")
def few(settings, tmp_path_factory):
    """A recipe of twenty pairs, of which one is held out."""
    files = write_pairs(tmp_path_factory.mktemp("few"), "train", pairs(20, 7))
    return {**settings, "data": {"train": files, "direction": "ab-ba"}}


@pytest.fixture(scope="module")
def small_run(few, tmp_path_factory):
    return regard.train(few, tmp_path_factory.mktemp("few") / "run", max_steps=2)


def test_a_validation_of_few_sentences_is_warned_of_once(few, tmp_path, capsys):
    regard.train(few, tmp_path / "run", max_steps=4, **{"train.eval_every": 2})
    told = capsys.readouterr().err
    assert told.count("valid has 1 example: its scores say little; ") == 1
    assert "data.valid" in told


def test_twenty_sentences_are_enough(settings, tmp_path, capsys):
    twenty = write_pairs(tmp_path, "valid", pairs(20, 8))
    data = {**settings["data"], "valid": twenty}
    regard.train({**settings, "data": data}, tmp_path / "files", max_steps=1)
    assert "say little" not in capsys.readouterr().err


@pytest.mark.parametrize(("criterion", "told"), [("loss", "loss"), ("bleu", "BLEU")])
def test_a_training_says_which_weights_are_kept_and_by_what(
    settings, tmp_path, capsys, criterion, told
):
    run = regard.train(settings, tmp_path / "run", max_steps=2, eval_every=1, criterion=criterion)
    err = capsys.readouterr().err
    best = [line for line in err.splitlines() if line.endswith(f"  best {told}")]
    step = best[-1].split()[1]
    assert f"the weights of step {step} are kept: best validation {told}" in err
    assert ("(of all scores, only it has label smoothing 0.1 in it)" in err) == (
        criterion == "loss"
    )
    assert run.recipe.train.criterion == criterion


def test_a_page_of_few_pairs_begins_with_five_different_texts(small_run):
    """One is held out; the others are of those that were trained on."""
    shown = [one["text"] for one in json.loads((small_run.folder.path / EXAMPLES).read_text())]
    assert len({*shown}) == len(shown) == 5


# ------------------------------------------------------------------ unknown words


def test_unknown_words_are_told_to_the_logger_and_held_by_a_look(run_path, caplog):
    caplog.set_level(
        logging.WARNING, logger="regard"
    )  # a server of another test may have raised it
    run = regard.load(run_path)
    line = "1 unknown word read as <unk>: zebra"
    run.translate(["a b", "zebra c"])
    assert caplog.record_tuples == [("regard", logging.WARNING, line)]
    caplog.clear()
    look = run.explain("zebra a")
    assert look.warnings == (line,)
    assert str(look).endswith(line)
    run.translate("a b")
    assert not caplog.records
    assert run.explain("a b").warnings == ()


def test_a_capital_of_a_known_word_is_told_with_the_way_out(run_path, run):
    hint = "2 unknown words read as <unk>: Zebra, A; `a` is known: set text.lowercase=true and "
    assert regard.load(run_path).explain("Zebra b A").warnings == (f"{hint}train again",)
    assert f"regard: {hint}train again\n" == run("translate", run_path, stdin="Zebra b A\n")[2]
    assert f"regard: {hint}train again\n" == run("explain", run_path, "Zebra b A")[2]


def test_evaluations_and_heads_do_not_repeat_it(run_path, tmp_path, caplog):
    files = write_pairs(tmp_path, "new", [("a zebra b", "b a"), ("c d", "d c")])
    run = regard.load(run_path)
    found = run.evaluate(source=files[0], reference=files[1])
    assert [note for note in found.notes if "zebra" in note]
    assert not caplog.records


# ------------------------------------------------------------------ ways out


def test_a_folder_that_holds_a_run_is_refused_in_the_words_of_both_doors(few, small_run):
    with pytest.raises(CheckpointError) as told:
        regard.train(few, small_run.folder.path)
    for way in ("--resume (resume=True)", "--overwrite (overwrite=True)", "--out (out=)"):
        assert way in str(told.value)


def test_without_a_test_set_an_evaluation_is_of_valid_and_says_so(small_run):
    found = small_run.evaluate()
    assert found.scores["split"] == "valid"
    assert (
        found.notes[0] == "there is no test set: scored on valid, by which the weights were chosen"
    )
    with pytest.raises(regard.RegardError, match=r"\(source=, reference=\)"):
        small_run.evaluate("test")
