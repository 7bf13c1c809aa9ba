"""A lecture's table made of trainings that only pretend: what they came to is made up here."""

import csv
import json
import math
import signal
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from at_work import Here

from regard.checkpoints.run_folder import RunFolder, save_settings
from regard.core.errors import CheckpointError, ConfigError, TrainingError
from regard.core.signals import Stop
from regard.data.splits import load_records
from regard.evaluation.metrics import METRICS
from regard.evaluation.systems import paired_bootstrap
from regard.recipes.recipe import load_recipe
from regard.runs import ensembles, side_by_side, trainings
from regard.runs import table_report as report
from regard.runs.comparison import p_value
from regard.runs.lecture_tables import (
    SUMMARIZATION,
    TABLES,
    TRANSLATION,
    LectureRow,
    TableClaim,
    table_named,
)
from regard.runs.rates import rate_for
from regard.runs.side_by_side import Crew
from regard.runs.table import make_table
from regard.runs.table_request import TableRequest, least_work, request, row_recipes
from regard.runs.table_results import RowResult, Section, load_sections
from regard.runs.table_verdicts import verdicts
from regard.runs.trainings import FinishedTraining
from regard.tasks.base import Evaluation, Task

WMT = {"ab-ba": {"bleu": 27.3, "flops": 3.3e18}}
SMALL = replace(
    TRANSLATION,
    rows=(
        LectureRow(key="dot", title="Dot & more", preset="cs224n2019", published=WMT),
        LectureRow(
            key="dot-again",
            title="Dot, again",
            preset="cs224n2019",
            train={"label_smoothing": 0.3},
            follows="dot",
        ),
        LectureRow(key="dots", title="Dots", ensemble_of="dot"),
        LectureRow(key="blocks", title="Blocks", preset="transformer"),
        LectureRow(key="blocks-big", title="Big", preset="transformer", sizes={"tiny": "small"}),
    ),
    claims=(
        TableClaim("Larger is better", "better", ("blocks-big", "blocks")),
        TableClaim("Blocks are cheaper", "cheaper", ("blocks", "blocks-big")),
        TableClaim("Ensembles help", "ensembles"),
    ),
)
RIGHT = {"dot": 20, "dot-again": 22, "blocks": 28, "blocks-big": 34, "ensemble": 26}
"""Of forty test sentences, how many come out right."""
FLOPS = {"dot": 8e8, "dot-again": 2e8, "blocks": 5e8, "blocks-big": 9e8}


@pytest.fixture
def data(settings, tmp_path):
    path = tmp_path / "letters.yaml"
    plain = {**settings, "model": {"dropout": 0.1}}
    path.write_text(yaml.safe_dump(plain))
    return str(path)


@pytest.fixture
def references(data):
    return [pair.target for pair in load_records(load_recipe(data).data, "pair").splits["test"]]


@dataclass
class Planned:
    """Stands for data and a model."""

    recipe: Any


class Pretended:
    """Trains nothing: writes a run folder with scores that the row's name decides."""

    def __init__(self, references):
        self.references, self.begun, self.right = references, [], dict(RIGHT)
        self.stop_at, self.highest = None, math.inf
        self.more = {}
        """Of a row: what else is told of its test set."""

    def outputs(self, n):
        return [text if i < n else "wrong" for i, text in enumerate(self.references)]

    def scores(self, n):
        outputs = self.outputs(n)
        found = {name: METRICS[name](outputs, self.references) for name in ("bleu", "chrf")}
        return {"n": len(outputs), "split": "test", **found, "bleu_signature": "made up"}

    def prepare(self, recipe, _place):
        assert recipe.train.init is None or Path(recipe.train.init).is_dir()
        return Planned(recipe)

    def train(self, recipe, path, *, test_sets, **_others):
        row = path.parent.name
        self.begun.append(path)
        save_settings(RunFolder(path), recipe.model_dump(mode="json"))
        if self.stop_at == (row, path.name):
            raise Stop(signal.SIGINT)
        if self.right[row] is None:
            raise ConfigError("it is broken")
        if recipe.train.lr > self.highest:
            raise TrainingError("the loss became nan")
        n, flops = self.right[row] + recipe.train.seed - 1, FLOPS[row]
        bleu = self.scores(n)["bleu"]
        lines = [
            {"kind": "valid", "step": 1, "flops": flops / 2, "loss": 1 / n, "bleu": bleu / 2},
            {
                "kind": "valid",
                "step": 2,
                "flops": flops,
                "loss": 1 / n + recipe.train.lr,
                "bleu": bleu,
            },
        ]
        (path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        measured = {"parameters": 1000, "flops": flops, "seconds": 60.0, "steps": 9, "tokens": 99}
        told = {s: {**self.scores(n), **self.more.get(row, {})} for s in test_sets}
        facts = {"scores": told, "measured": measured}
        (path / "scores.json").write_text(json.dumps({**facts, "ended": "patience"}))
        evaluation = SimpleNamespace(outputs=self.outputs(n))
        return SimpleNamespace(
            outcome=SimpleNamespace(signal=None), evaluations=dict.fromkeys(test_sets, evaluation)
        )

    def together(self, paths, _device):
        self.begun.append(tuple(paths))
        n = self.right["ensemble"]
        return Evaluation(self.scores(n), self.outputs(n))


@pytest.fixture
def pretended(monkeypatch, references):
    one = Pretended(references)
    monkeypatch.setattr(trainings, "train", one.train)
    monkeypatch.setattr(trainings, "prepare", one.prepare)
    monkeypatch.setattr(trainings, "steps_within", lambda *_, **__: 80)
    monkeypatch.setattr(ensembles, "scored_together", one.together)
    monkeypatch.setattr(Task, "ensemble", None, raising=False)
    return one


@pytest.fixture
def asked(data):
    return TableRequest(
        table=SMALL,
        data=(data,),
        budget=trainings.Budget(1e9, "flops"),
        converge=True,
        seeds=(1,),
        members=2,
        size="tiny",
    )


# ------------------------------------------------------------------ training


def test_every_row_is_trained_at_both_budgets_with_one_search(asked, pretended, tmp_path):
    asked = replace(asked, overrides=("train.max_steps=300",))  # the budget buys 80
    equal, converged = make_table(asked, tmp_path / "out")
    assert (equal.until, converged.until) == ("budget", "converged")
    assert [row.row for row in equal.rows] == ["dot", "dot-again", "dots", "blocks", "blocks-big"]
    assert all(row.error is None for row in (*equal.rows, *converged.rows))
    names = [path.name for path in pretended.begun if not isinstance(path, tuple)]
    of_dot = [n for n in names if n.startswith(("seed", "converged"))]
    # both seeds of what an ensemble is made of and of nothing else
    assert of_dot.count("seed-2") == of_dot.count("converged-2") == 1
    assert len(set(pretended.begun)) == len(pretended.begun)
    config = yaml.safe_load((tmp_path / "out/letters/blocks/converged-1/config.yaml").read_text())
    whole, train = load_recipe(asked.data[0], asked.overrides).train, config["train"]
    for name in ("max_steps", "schedule", "warmup_steps", "patience"):
        assert train[name] == getattr(whole, name)
    assert train["eval_every"] == math.ceil(whole.max_steps / trainings.VALIDATIONS)
    rates = [next(r.lr for r in one.rows if r.row == "blocks") for one in (equal, converged)]
    assert train["lr"] == rates[1] == rate_for(whole.max_steps, rates[0], 80) != rates[0]


def test_to_convergence_is_never_shorter_than_the_budget(asked, pretended, tmp_path):
    equal, converged = make_table(asked, tmp_path / "out")  # its recipe has 30 steps
    path = tmp_path / "out/letters/blocks/converged-1/config.yaml"
    assert yaml.safe_load(path.read_text())["train"]["max_steps"] == 80
    assert [row.lr for row in converged.rows] == [row.lr for row in equal.rows]


def test_runs_that_would_converge_otherwise_are_not_mixed_in(asked, pretended, tmp_path):
    make_table(asked, tmp_path / "out")
    path = tmp_path / "out/letters/blocks/converged-1/config.yaml"
    config = yaml.safe_load(path.read_text())
    config["train"] |= {"patience": 5, "schedule": "inverse_sqrt"}
    path.write_text(yaml.safe_dump(config))
    converged = make_table(asked, tmp_path / "out")[1]
    errors = {row.row: row.error for row in converged.rows if row.error}
    assert errors.keys() == {"blocks"}
    assert "choose another --out" in errors["blocks"]
    config = yaml.safe_load((tmp_path / "out/letters/blocks/seed-1/config.yaml").read_text())
    assert (config["train"]["patience"], config["train"]["max_steps"]) == (None, 80)
    assert config["model"]["dropout"] == 0.1  # the recipe's of the data, for all rows


def test_what_follows_starts_from_the_same_seed_and_costs_both(asked, pretended, tmp_path):
    asked = replace(asked, overrides=("train.max_steps=300",))  # so a rate of its own
    equal, section = make_table(asked, tmp_path / "out")
    again = tmp_path / "out/letters/dot-again/converged-1/config.yaml"
    config = yaml.safe_load(again.read_text())["train"]
    assert config["init"] == str(tmp_path / "out/letters/dot/converged-1")
    assert config["patience"] is None
    rows, (first, *_) = {row.row: row for row in section.rows}, equal.rows
    assert (first.row, rows["dot-again"].lr) == ("dot", pytest.approx(0.1 * first.lr, rel=1e-2))
    assert rows["dot-again"].training_flops == FLOPS["dot"] + FLOPS["dot-again"]
    began, ended = (at["flops"] for at in rows["dot-again"].curve)
    assert (began, ended) == (FLOPS["dot"] + FLOPS["dot-again"] / 2, 1e9)


def test_an_ensemble_is_of_the_other_rows_runs_and_costs_all_of_them(asked, pretended, tmp_path):
    section = make_table(asked, tmp_path / "out")[0]
    folder = tmp_path / "out/letters/dot"
    assert (folder / "seed-1", folder / "seed-2") in pretended.begun
    row = next(row for row in section.rows if row.row == "dots")
    assert (row.kind, row.parameters, row.training_flops) == ("ensemble", 2000, 2 * FLOPS["dot"])
    assert row.scores["bleu"] == pytest.approx(pretended.scores(RIGHT["ensemble"])["bleu"])


@pytest.mark.parametrize("text", ["{}", "[]", '{"scores": '])
def test_an_ensemble_is_scored_again_where_its_file_is_damaged(text, asked, pretended, tmp_path):
    asked = replace(asked, converge=False)
    before = make_table(asked, tmp_path / "out")
    (tmp_path / "out/letters/dots/ensemble-budget-2.json").write_text(text)
    assert make_table(asked, tmp_path / "out") == before


def test_an_ensemble_is_scored_again_where_a_run_of_it_is_newer(asked, pretended, tmp_path):
    asked = replace(asked, converge=False)
    make_table(asked, tmp_path / "out")
    pretended.begun.clear()
    (tmp_path / "out/letters/dot/seed-2/scores.json").touch()
    make_table(asked, tmp_path / "out")
    assert len(pretended.begun) == 1  # the ensemble, and nothing is trained


def test_an_ensemble_that_fails_beside_others_is_not_tried_again(
    asked, pretended, tmp_path, monkeypatch
):
    tried = []

    def fail(paths, _device):
        tried.append(paths)
        raise ConfigError("too large")

    monkeypatch.setattr(ensembles, "scored_together", fail)
    monkeypatch.setattr(side_by_side, "Processes", Here)
    section = make_table(replace(asked, converge=False), tmp_path / "out", crew=Crew(jobs=2))[0]
    assert {row.row: row.error for row in section.rows if row.error} == {"dots": "too large"}
    assert len(tried) == 1


def test_no_section_is_written_while_rates_are_still_searched(
    asked, pretended, tmp_path, monkeypatch
):
    """An ensemble that was not scored waits for nothing where its runs are finished."""
    out = tmp_path / "out"
    make_table(replace(asked, converge=False), out)
    (out / "letters/dots/ensemble-budget-2.json").unlink()
    (out / "letters/section-budget.json").unlink()
    ended = []

    class Watched(Here):
        def wait(self):
            there = (out / "letters/section-budget.json").exists()
            found = super().wait()
            ended.extend((one.name, there) for one in found)
            return found

    monkeypatch.setattr(side_by_side, "Processes", Watched)
    make_table(asked, out, crew=Crew(jobs=10))
    searches = [there for name, there in ended if name.endswith("learning rate")]
    assert searches
    assert not any(searches)


def test_a_table_that_was_stopped_reads_what_is_finished(asked, pretended, tmp_path):
    pretended.stop_at = ("blocks-big", "seed-1")
    with pytest.raises(Stop):
        make_table(asked, tmp_path / "out")
    before = pretended.begun[:-1]
    pretended.stop_at, pretended.begun[:] = None, []
    first = make_table(asked, tmp_path / "out")
    assert not {*before} & {*pretended.begun}
    pretended.begun.clear()
    assert make_table(asked, tmp_path / "out") == first
    assert pretended.begun == []


def test_more_data_joins_the_table_that_is_there(asked, pretended, data, tmp_path):
    make_table(replace(asked, converge=False), tmp_path / "out")
    other = tmp_path / "more.yaml"
    other.write_text(Path(data).read_text())
    sections = make_table(replace(asked, converge=False, data=(str(other),)), tmp_path / "out")
    assert [one.data for one in sections] == ["letters", "more"]
    with pytest.raises(ConfigError, match="budget was '1e9flops' and is now '2e9flops'"):
        make_table(replace(asked, budget=trainings.Budget(2e9, "flops")), tmp_path / "out")


def test_a_row_that_fails_says_why_and_takes_its_followers_with_it(asked, pretended, tmp_path):
    pretended.right["dot"] = None
    section = make_table(replace(asked, converge=False), tmp_path / "out")[0]
    errors = {row.row: row.error for row in section.rows if row.error}
    assert errors.keys() == {"dot", "dot-again", "dots"}
    assert errors["dot"] == "it is broken"
    assert "dot, has failed" in errors["dots"]
    assert section.verdicts[2].verdict is None
    page = (tmp_path / "out/table.html").read_text()
    assert "it is broken" in page
    assert "cannot be told" in page


# ------------------------------------------------------------------ files


# ------------------------------------------------------------------ side by side


def timeless(sections):
    return [replace(one, rows=[replace(row, seconds=None) for row in one.rows]) for one in sections]


def test_rows_side_by_side_come_to_the_same(asked, pretended, tmp_path, monkeypatch):
    """What follows a row waits for it, and every search is made once: rates too high, too."""
    pretended.highest = 0.006
    wanted = make_table(asked, tmp_path / "alone")
    n_alone, said = len(pretended.begun), []
    assert any("lr-0.01-" in str(path) for path in pretended.begun)
    monkeypatch.setattr(side_by_side, "Processes", Here)
    found = make_table(asked, tmp_path / "beside", crew=Crew(jobs=3), say=said.append)
    assert timeless(found) == timeless(wanted)
    assert len(pretended.begun) == 2 * n_alone
    for job in ("dot-again, converged-1", "dots, budget", "dots, converged"):
        assert f"letters/{job}: done" in " ".join(said)
    assert make_table(asked, tmp_path / "beside", crew=Crew(jobs=3)) == found


def test_a_row_that_fails_beside_others_says_the_same(asked, pretended, tmp_path, monkeypatch):
    pretended.right["dot"] = None
    wanted = make_table(asked, tmp_path / "alone")
    monkeypatch.setattr(side_by_side, "Processes", Here)
    found = make_table(asked, tmp_path / "beside", crew=Crew(jobs=2))
    assert timeless(found) == timeless(wanted)
    tried = [path for path in pretended.begun if tmp_path / "beside/letters/dot" in path.parents]
    assert len(tried) == 1  # and not again, when rows are read back
    assert [row.error for row in found[0].rows][:2] == [
        "it is broken",
        "the row that it starts from, dot, has failed",
    ]


def test_files_have_published_figures_beside_ours(asked, pretended, tmp_path):
    out = tmp_path / "out"
    sections = make_table(asked, out)
    found = json.loads((out / "table.json").read_text())
    assert (found["table"], len(found["sections"])) == ("translation", 2)
    first = found["sections"][0]["rows"][0]
    assert first["published"] == {"bleu": 27.3, "flops": 3.3e18}
    assert first["scores"]["bleu"] == pytest.approx(pretended.scores(RIGHT["dot"])["bleu"])
    with (out / "table.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 10
    assert (rows[0]["title"], rows[0]["published_bleu"]) == ("Dot & more", "27.3")
    assert rows[3]["published_bleu"] == ""
    assert float(rows[3]["bleu"]) == sections[0].rows[3].scores["bleu"]
    latex = (out / "table.tex").read_text()
    assert r"Dot \& more" in latex
    assert "3.30e18" in latex
    page = (out / "table.html").read_text()
    assert "Dot &amp; more" in page
    assert "published BLEU" in page
    assert "WMT 2014" in page


def test_the_best_row_is_told_and_others_are_tested_against_it(asked, pretended, tmp_path):
    section = make_table(replace(asked, seeds=(1, 2)), tmp_path / "out")[0]
    assert section.best == "blocks-big"
    p = {row.row: row.p_value for row in section.rows}
    assert p["blocks-big"] is None
    assert 0 < p["dot"] < p["blocks"] <= 1
    assert 0 < p["dots"] < 1  # one ensemble beside two seeds
    deviations = [row.deviations.get("bleu") for row in section.rows]
    assert [one is None for one in deviations] == [False, False, True, False, False]


def test_differences_are_tested_by_the_metric_that_ranks_the_rows(
    asked, pretended, references, tmp_path, monkeypatch
):
    def outputs(n):  # each row has sentences that no other has: only then metrics differ
        return [x if (i + 3 * n) % 40 < n else "wrong" for i, x in enumerate(references)]

    monkeypatch.setattr(pretended, "outputs", outputs)
    claims = (SMALL.claims[0], SMALL.claims[2])  # what is cheaper goes by validations
    table = replace(SMALL, metrics=("chrf", "bleu"), claims=claims)
    section = make_table(replace(asked, table=table, converge=False), tmp_path / "out")[0]

    def p(one, other):
        texts = outputs(RIGHT[one]), outputs(RIGHT[other]), references
        return paired_bootstrap(*texts, metric="chrf").p_value

    wanted = {row: p("blocks-big", row) for row in ("dot", "dot-again", "blocks")}
    assert {row.row: row.p_value for row in section.rows if row.row in wanted} == wanted
    larger, ensembles = section.verdicts
    assert larger.finding.endswith(f"; p = {wanted['blocks']:.3f}")
    assert ensembles.finding.endswith(f"; p = {p('ensemble', 'dot'):.3f}")


def test_a_damaged_section_is_told(asked, pretended, tmp_path):
    make_table(replace(asked, converge=False), tmp_path / "out")
    (tmp_path / "out/letters/section-budget.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"section-budget.json is damaged"):
        load_sections(tmp_path / "out")


def test_a_folder_of_another_table_is_refused_before_anything_is_trained(
    asked, pretended, tmp_path
):
    (tmp_path / "out/documents").mkdir(parents=True)
    path = tmp_path / "out/documents/section-budget.json"
    path.write_text('{"rows": [{"row": "dot"}, {"row": "dmca2018"}]}')
    with pytest.raises(CheckpointError, match=r"rows of another table .*\(dmca2018\); choose"):
        make_table(asked, tmp_path / "out")
    assert not pretended.begun


# ------------------------------------------------------------------ verdicts


def made(key, bleu, flops=1.0, curve=(), kind="single"):
    points = [{"flops": at, "bleu": value} for at, value in curve]
    return RowResult(
        row=key, title=key, kind=kind, scores={"bleu": bleu}, training_flops=flops, curve=points
    )


def judged(significance=None, **changes):
    """Verdicts of a table in which all claims hold, but for some rows."""
    rows = {
        "dot": made("dot", 20, 9.0, [(3, 9), (5, 15), (9, 21)]),
        "dots": made("dots", 22, kind="ensemble"),
        "blocks": made("blocks", 27, 6.0, [(2, 10), (4, 22), (6, 26)]),
        "blocks-big": made("blocks-big", 28, 8.0, [(8, 27)]),
        **changes,
    }
    found = verdicts(SMALL, list(rows.values()), significance)
    return [(one.verdict, one.numbers) for one in found]


def test_verdicts_turn_when_numbers_turn():
    larger, cheaper, ensembles = judged()
    assert larger == (True, {"blocks-big": 28, "blocks": 27})
    assert cheaper == (True, {"flops": 4, "other_flops": 9.0})
    assert ensembles == (True, {"dots": 22, "dot": 20})
    assert judged(blocks=made("blocks", 29, 6.0, [(6, 26)]))[0][0] is False
    late = made("blocks", 27, 12.0, [(4, 10), (9, 22), (12, 26)])
    assert judged(blocks=late)[1] == (False, {"flops": 9, "other_flops": 9.0})
    never = made("blocks", 27, 6.0, [(6, 20)])
    assert judged(blocks=never)[1] == (False, {"other_flops": 9.0})
    assert judged(dots=made("dots", 19, kind="ensemble"))[2][0] is False
    failed = RowResult(row="blocks", title="blocks", error="why")
    assert [verdict for verdict, _ in judged(blocks=failed)] == [None, None, True]
    failed = RowResult(row="blocks-big", title="Big", error="why")
    assert [verdict for verdict, _ in judged(**{"blocks-big": failed})] == [None, True, True]
    (one,) = verdicts(replace(SMALL, claims=SMALL.claims[:1]), [made("blocks", 27), failed])
    assert one.finding == "Big could not be trained"


@pytest.mark.parametrize(
    ("p", "expected"),
    [((0.01, 0.01), (True, True)), ((0.05, 0.01), (None, True)), ((0.01, 0.2), (True, None))],
)
def test_nothing_is_concluded_from_what_may_be_luck(p, expected):
    known = {("blocks-big", "blocks"): p[0], ("dots", "dot"): p[1]}
    found = judged(significance=lambda *rows: known[rows])
    assert (found[0][0], found[2][0]) == expected


@pytest.mark.parametrize(("p", "expected"), [(0.01, False), (0.3, None)])
def test_who_lags_by_luck_has_not_lost(p, expected):
    better = made("blocks", 29, 6.0, [(6, 26)])
    known = {("blocks", "blocks-big"): p, ("dots", "dot"): 0.01}
    found = judged(blocks=better, significance=lambda *rows: known[rows])
    assert found[0][0] is expected


@pytest.mark.parametrize(
    ("scores", "p", "expected"),
    [
        ((22, 9), (0.01, 0.01), True),
        ((22, 9), (0.01, 0.3), None),
        ((19, 9), (0.01, 0.3), False),
        ((22, 7), (0.01, 0.01), False),
    ],
)
def test_ensembles_help_where_all_of_them_do(scores, p, expected):
    rows = {
        "dot": made("dot", 20),
        "dots": made("dots", scores[0], kind="ensemble"),
        "blocks": made("blocks", 8),
        "several-blocks": made("several-blocks", scores[1], kind="ensemble"),
    }
    more = LectureRow(key="several-blocks", title="Blocks", preset="", ensemble_of="blocks")
    table = replace(SMALL, rows=(*SMALL.rows, more))
    (one,) = verdicts(
        replace(table, claims=(SMALL.claims[2],)),
        list(rows.values()),
        lambda *pair: p[0] if "dot" in pair else p[1],
    )
    assert one.verdict is expected


@pytest.mark.parametrize(
    ("reads", "cut", "expected"),
    [
        ((1100, 400), (0, 40), (True, "")),
        ((1100, 400), (12, 40), (True, "")),
        ((1100, 400), (None, None), (True, "")),  # runs of an earlier version do not say it
        (
            (1100, 400),
            (0, 0),
            (None, "no test document is longer than the 400 tokens that Near reads here, so "),
        ),
        ((400, 400), (40, 40), (None, "Far reads 400 tokens here and Near 400")),
    ],
)
def test_who_has_read_nothing_more_is_not_better_by_reading_more(reads, cut, expected):
    titles = {"blocks-big": "Far", "blocks": "Near"}
    rows = [
        replace(made(key, n), title=title, reads=most, cut=n_cut)
        for (key, title), n, most, n_cut in zip(titles.items(), (30, 20), reads, cut, strict=True)
    ]
    claim = TableClaim("Reading more helps", "longer", ("blocks-big", "blocks"))
    (one,) = verdicts(replace(SMALL, claims=(claim,)), rows, lambda *_: 0.01)
    verdict, why = expected
    assert (one.verdict, one.numbers) == (verdict, {"blocks-big": 30, "blocks": 20})
    assert one.finding.startswith(why or "Far: ")
    assert one.finding.endswith("Far: BLEU 30.00; Near: BLEU 20.00; p = 0.010")


def test_p_that_is_printed_as_the_level_may_be_luck():
    (one,) = verdicts(
        replace(SMALL, claims=SMALL.claims[:1]),
        [made("blocks", 27), made("blocks-big", 28)],
        lambda *_: 0.04995,
    )
    assert (one.verdict, one.finding[-9:]) == (None, "p = 0.050")


def test_a_rival_without_validations_is_no_measure_of_cost():
    rows = [made("dot", 20), made("blocks", 27, 6.0, [(6, 26)]), made("blocks-big", 28)]
    (one,) = verdicts(replace(SMALL, claims=(SMALL.claims[1],)), rows)
    assert (one.verdict, one.finding) == (None, "there is nothing to compare with")


# ------------------------------------------------------------------ what is asked for


def test_published_figures_are_the_lectures():
    found = {row.key: row.published for row in TRANSLATION.rows}
    assert found["transformer-big"] == {
        "en-de": {"bleu": 28.4, "flops": 2.3e19}, "en-fr": {"bleu": 41.8},
    }  # fmt: skip
    assert found["bytenet2016"] == {"en-de": {"bleu": 23.75}, "en-fr": {}}
    assert len(TRANSLATION.rows) == 11  # the lecture's ten, and GNMT before RL
    rouge = [row.published[""]["rouge_l"] for row in SUMMARIZATION.rows]
    assert rouge == [12.7, 34.2, 33.6, 36.2, 37.9, 38.8]
    assert [row.max_len for row in SUMMARIZATION.rows] == [500, 500, 4000, 11000, 11000, 7500]
    for table in TABLES.values():
        keys = [row.key for row in table.rows]
        named = [k for r in table.rows for k in (r.follows, r.ensemble_of) if k is not None]
        assert {*named, *(key for claim in table.claims for key in claim.rows)} <= {*keys}
        for row in table.rows:  # a row comes after those that it needs
            assert all(keys.index(k) < keys.index(row.key) for k in (row.follows, row.ensemble_of)
                       if k is not None)  # fmt: skip


def test_quick_is_a_small_table_at_one_budget():
    asked = request(TRANSLATION, quick=True)
    assert (asked.data, asked.size, asked.endings) == (("sentences",), "tiny", ("budget",))
    assert request(TRANSLATION).endings == ("budget", "converged")
    given = {"data": ["sentences"], "budget": "1min", "converge": False, "seeds": 2, "members": 3}
    for name, value in {**given, "size": "small"}.items():
        with pytest.raises(ConfigError, match=f"leave out --{name}"):
            request(TRANSLATION, quick=True, **{name: value})


def test_what_is_not_there_is_refused_in_one_line(asked, pretended, data):
    missing = replace(SMALL, rows=(LectureRow(key="x", title="Xs", preset="xnet2031"),))
    with pytest.raises(ConfigError, match=r"the row 'Xs' cannot be trained: .*'xnet2031'"):
        row_recipes(replace(asked, table=missing), data)
    with pytest.raises(ConfigError, match="no data 'nowhere'"):
        row_recipes(asked, "nowhere")
    with pytest.raises(ConfigError, match="gpt is a recipe for language"):
        row_recipes(asked, "gpt")
    with pytest.raises(
        ConfigError, match="'sentences' has no documents with summaries; choose doc"
    ):
        row_recipes(request(SUMMARIZATION), "sentences")
    with pytest.raises(
        ConfigError, match=r"no table 'translaton' \(did you mean 'translation'\?\)"
    ):
        table_named("translaton")
    with pytest.raises(ConfigError, match="--size 'huge': a table is tiny, small, base"):
        request(SMALL, size="huge")
    with pytest.raises(ConfigError, match="--members 1"):
        request(SMALL, members=1)
    with pytest.raises(ConfigError, match="a budget is an amount"):
        request(SMALL, budget="much")


def test_ensembles_that_cannot_be_made_are_told_before_anything_is_trained(
    asked, data, monkeypatch
):
    monkeypatch.delattr(Task, "ensemble", raising=False)
    with pytest.raises(
        ConfigError, match="the row 'Dots' cannot be trained: this version makes no"
    ):
        row_recipes(asked, data)


def test_what_a_table_takes_is_what_is_not_finished(asked, pretended, tmp_path):
    out = tmp_path / "out"
    # a search takes 1.875 at least; of what ensembles are made of two seeds are trained
    wanted = {"dot": 5.875, "dot-again": 0.5, "blocks": 3.875, "blocks-big": 3.875}
    assert least_work(asked, out) == {f"letters/{row}": work for row, work in wanted.items()}
    make_table(asked, out)
    assert {*least_work(asked, out).values()} == {0}
    (out / "letters/blocks/converged-1/scores.json").unlink()
    (out / "letters/dot-again/seed-1/scores.json").unlink()
    left = {name: work for name, work in least_work(asked, out).items() if work}
    assert left == {"letters/blocks": 1.0, "letters/dot-again": 0.25}


@pytest.mark.parametrize("setting", ["world=copy", "data.world=copy"])
def test_no_setting_puts_another_world_under_the_name_of_one(setting):
    asked = request(TABLES["summarization"], data=["documents"], overrides=[setting])
    with pytest.raises(ConfigError, match="names the world 'documents': leave out --set data.wor"):
        row_recipes(asked, "documents")


def test_settings_are_for_all_rows(asked, data):
    monkey = replace(SMALL, rows=SMALL.rows[:1])
    changed = ("train.batch_tokens=77", "model.dropout=0.2", "decode.beam=3")
    recipe = row_recipes(replace(asked, table=monkey, overrides=changed), data)["dot"]
    assert (recipe.train.batch_tokens, recipe.decode.beam) == (77, 3)
    assert recipe.model.given()["dropout"] == 0.2


def test_a_row_reads_as_much_as_its_paper_or_a_part_of_it(asked, data):
    row = LectureRow(key="dot", title="Dot", preset="cs224n2019", max_len=500)
    table = replace(SMALL, rows=(row,), shorter={"tiny": 5})
    assert row_recipes(replace(asked, table=table), data)["dot"].model.given()["max_len"] == 100
    small = replace(asked, table=table, size="small")
    assert row_recipes(small, data)["dot"].model.given()["max_len"] == 500


def test_what_a_row_reads_stands_beside_the_lectures_length(asked, pretended, tmp_path):
    rows = (
        LectureRow(key="dot", title="Dot, L = 5000", preset="cs224n2019", max_len=5000),
        LectureRow(key="blocks", title="Blocks, L = 9000", preset="transformer", max_len=9000),
    )
    claims = (TableClaim("Reading more helps", "longer", ("blocks", "dot")),)
    small = replace(SMALL, rows=rows, claims=claims, shorter={"tiny": 5})
    asked, out = replace(asked, table=small, converge=False), tmp_path / "out"
    pretended.more["dot"], pretended.right["blocks"] = {"cut": 0}, None
    (section,) = make_table(asked, out)
    (row, failed) = report.section_table(small, section).rows
    assert report.section_table(small, section).header[:3] == ["Model", "Reads", "Parameters"]
    assert row[:3] == ["Dot, L = 5000", "1,000", "1,000"]
    assert failed[:3] == ["Blocks, L = 9000", "1,800", "failed"]
    with (out / "table.csv").open(newline="") as file:
        found = [(one["reads"], one["cut"]) for one in csv.DictReader(file)]
    assert found == [("1000", "0"), ("1800", "")]
    rows = json.loads((out / "table.json").read_text())["sections"][0]["rows"]
    assert [(one["reads"], one["cut"]) for one in rows] == [(1000, 0), (1800, None)]
    for name in ("table.html", "table.tex"):
        assert "1,800" in (out / name).read_text()
    assert "Reads" in dict(report.notes_table(small, [section]).rows)
    assert "Reads" not in report.section_table(SMALL, section).header


def test_an_outcome_of_one_run_is_compared_with_every_seed():
    run = FinishedTraining({}, [], {"test": ["a b c d"]})
    assert p_value([run], [run, run], ["a b c d"]) == 1.0


def test_rows_of_summaries_read_a_part_and_write_all():
    summarization = TABLES["summarization"]
    for asked, most in (
        (request(summarization, quick=True), [16, 32]),
        (request(summarization), [32, 64]),
        (request(summarization, size="base"), [128, 256]),
    ):
        for rows in (row_recipes(asked, name) for name in asked.data):
            assert all(one.data.truncate for one in rows.values())
            assert min(one.model.given()["max_len"] for one in rows.values()) >= 100
            models = [one.model.given() for one in rows.values()]
            assert [one.get("experts") for one in models[-2:]] == most
            assert [one.get("expert_layers") for one in models[-3:]] == [None, (3,), (3,)]


def test_rotary_rows_have_the_base_of_their_data():
    asked = request(TABLES["summarization"], size="base", data=["documents-11000"])
    rows = row_recipes(asked, "documents-11000")
    bases = {key: one.model.given().get("rotary_base") for key, one in rows.items()}
    assert bases["transformer-d"] == bases["dmca2018"] == 20_000
    assert bases["seq2seq-attention"] is bases["transformer-ed"] is None
    assert "rotary_base" not in row_recipes(asked, "documents-1100")["dmca2018"].model.given()


def test_every_decoder_of_a_summarizer_sees_its_whole_source():
    asked = request(TABLES["summarization"])
    row = row_recipes(asked, "documents-1100")["transformer-ed"]
    assert "windows" not in row.model.given()  # they would be those of attention across, too


def test_notes_say_how_rows_differ_from_the_published_ones():
    section = Section(
        data="x", direction="", budget="1", until="budget", size="small", seeds=(1,), members=2,
        n=1, best="x", signatures={}, rows=[], verdicts=[],
    )  # fmt: skip
    table = TABLES["summarization"]
    notes = dict(report.notes_table(table, [section]).rows)
    assert "rotary" in notes["Model"]
    assert notes["L"] == "divided by 10 where models are small, 100 at least"
    assert notes["MoE"] == "experts divided by 4 where models are small"
    base = report.notes_table(table, [replace(section, size="base")]).rows
    assert not {"L", "MoE"} & {name for name, _ in base}


def test_equal_budgets_are_in_the_table_before_the_others_have_converged(
    asked, pretended, tmp_path, monkeypatch
):
    out, seen = tmp_path / "out", []

    class Watched(Here):
        def start(self, job, found):
            if "converged" in job.name:
                seen.append((job.name, (out / "table.json").exists()))
            super().start(job, found)

    monkeypatch.setattr(side_by_side, "Processes", Watched)
    make_table(asked, out, crew=Crew(jobs=1))
    assert seen
    assert all(there for _, there in seen)
    assert len(json.loads((out / "table.json").read_text())["sections"]) == 2


def test_a_rewarded_row_is_chosen_by_its_reward():
    asked = request(TRANSLATION, quick=True)
    rows = row_recipes(asked, asked.data[0])
    assert {key: one.train.criterion for key, one in rows.items() if one.train.rewards} == {
        "gnmt2016-rl": "gleu"
    }


def test_a_search_begins_where_the_row_has_its_rate_unless_one_is_given(tmp_path):
    rows = row_recipes(request(TRANSLATION, data=["sentences"]), "sentences")
    own = load_recipe("transformer").train.lr
    assert rows["gnmt2016"].train.lr == 4 * own
    assert rows["transformer-big"].train.lr == own
    for given in ("lr=0.003", "train.lr=0.003"):
        rows = row_recipes(request(TRANSLATION, data=["sentences"], overrides=[given]), "sentences")
        assert {recipe.train.lr for recipe in rows.values()} == {0.003}
    paper = tmp_path / "paper.yaml"  # whose rate follows from the width and the warm-up
    paper.write_text("base: transformer\ntrain: {lr: null}\n")
    rows = row_recipes(request(TRANSLATION, data=[str(paper)]), str(paper))
    assert {recipe.train.lr for recipe in rows.values()} == {None}
