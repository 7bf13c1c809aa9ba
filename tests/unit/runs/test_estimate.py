"""An estimate of what a training costs: soon, and near what the whole of it would tell."""

import time
import tracemalloc
from functools import partial

import pytest
import torch

from regard.data.splits import load_records
from regard.data.worlds.registry import World
from regard.recipes.recipe import load_recipe
from regard.runs import estimate as module
from regard.runs.estimate import enough_to_estimate, estimate
from regard.runs.prepare import prepare
from regard.tasks import base
from regard.tasks import translation_training as tasks
from regard.tasks.base import rehearsed
from regard.tasks.recipe import recipe_from
from regard.training.update import Update

SMALL = (
    *("document_length=120", "size=tiny", "model.max_len=160", "batch_tokens=2000"),
    *("max_steps=4", "eval_every=2", "n_train=600"),
)


@pytest.fixture
def documents():
    return load_recipe("documents-500", SMALL)


@pytest.fixture
def enough(documents, monkeypatch):
    monkeypatch.setattr(module, "WORLDS", {"documents": World({}, enough=200)})
    return enough_to_estimate(documents)


def prepared(recipe):
    with torch.random.fork_rng():
        return prepare(recipe, torch.device("cpu"))


def test_of_a_large_world_a_part_tells_the_cost(documents, enough, monkeypatch):
    monkeypatch.setattr(base, "REHEARSED", 0.0)
    monkeypatch.setattr(module, "TRIES", 2)
    fewer, times = enough
    assert (fewer.data.n_train, times) == (200, 3)
    part, whole = estimate(prepared(fewer), times), estimate(prepared(documents))
    assert part.flops == pytest.approx(whole.flops, rel=0.1)
    assert part.parameters == pytest.approx(whole.parameters, rel=0.02)


def test_what_is_not_drawn_takes_memory_as_well(enough):
    fresh = load_recipe("documents-500", [*SMALL, "world_seed=7"]).data  # drawn by nobody before
    splits = load_records(fresh, "summary").splits
    tracemalloc.start()
    drawn = splits["train"]
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(drawn) == 600
    assert module._memory_of(drawn) == pytest.approx(taken, rel=0.5)
    assert module._memory_of(()) == 0
    few = prepared(enough[0])
    more = estimate(few, 1e6).memory_bytes - estimate(few).memory_bytes
    assert more > 1e6 * module._memory_of(few.learned_from()) * 0.9


def test_a_world_that_is_small_enough_is_drawn_whole(documents, settings):
    assert enough_to_estimate(documents) == (documents, 1.0)
    files = recipe_from(settings)
    assert enough_to_estimate(files) == (files, 1.0)


@pytest.mark.parametrize(("seconds", "n"), [(0.0, 2), (1e9, 8)])
def test_slow_steps_are_few(seconds, n, settings, monkeypatch):
    taken = []

    class Counted(Update):
        def __call__(self, *batches, **how):
            taken.append(1)
            return super().__call__(*batches, **how)

    monkeypatch.setattr(module, "Update", Counted)
    monkeypatch.setattr(module, "SECONDS", seconds)
    monkeypatch.setattr(module, "TRIES", 4)
    estimate(prepared(recipe_from(settings)))
    assert len(taken) == n


def test_a_rehearsal_reckons_the_rest_by_what_was_done(monkeypatch):
    now, done = [0.0], []
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def do(part):
        done.append(part)
        now[0] += part

    assert rehearsed([0.25] * 4, do, lambda part: part) == 1.0
    assert len(done) == 4
    done.clear()
    assert rehearsed([1.0] * 50, do, lambda _part: 3) == 50.0
    assert len(done) == 4  # more than two seconds after the first
    assert rehearsed([], do, lambda _part: 1) == 0.0
    assert rehearsed([3.0], do, lambda _part: 1) == 3.0


def test_a_first_part_that_compiles_kernels_counts_once(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def do(_part):
        now[0] += 3.0 if now[0] == 0 else 0.125

    assert rehearsed(range(100), do, lambda _part: 1) == 3.0 + 99 * 0.125


def test_a_validation_is_rehearsed_in_part(documents, monkeypatch):
    few = prepared(documents)
    validation, seen, wrote = few.validation(), [], []
    monkeypatch.setattr(base, "REHEARSED", 0.0)
    monkeypatch.setattr(validation, "_loss", lambda _model, batch: seen.append(batch))
    monkeypatch.setattr(tasks, "decode", lambda _model, some, **_: wrote.append(some))
    small = partial(tasks.decode_batches, batch_tokens=1000)
    monkeypatch.setattr(tasks, "decode_batches", small)
    assert len(validation.batches) > 2
    assert validation.rehearse(few.model.eval()) > 0
    assert len(seen) == 2
    assert len(wrote) == 2
    assert sum(map(len, wrote)) < len(validation.sources)
