"""Examples of a page: held-out records, else some of the first that were learned from."""

import json
from itertools import count
from types import SimpleNamespace

import pytest

from regard.data.records import Labelled
from regard.tasks import report
from regard.tasks.base import JudgedRun, Prepared
from regard.tasks.examples import EXAMPLES, MOST_READ


@pytest.fixture
def written(tmp_path, monkeypatch):
    """The examples that the report of a classifier writes, by held-out and learned-from records."""
    looked_at = []
    monkeypatch.setattr(report, "write_report", lambda *given: looked_at.extend(given[-1]))

    def of(held_out, learned_from):
        prepared = SimpleNamespace(
            recipe=SimpleNamespace(task="classification"),
            held_out=lambda: held_out,
            learned_from=lambda: learned_from,
        )
        run = SimpleNamespace(folder=SimpleNamespace(path=tmp_path))
        Prepared.report(prepared, JudgedRun(run, {}), {})
        return [one["text"] for one in json.loads((tmp_path / EXAMPLES).read_text())]

    of.looked_at = looked_at
    return of


def texts(*said):
    return [Labelled(text) for text in said]


def test_what_is_held_out_comes_first_and_then_what_was_learned_from(written):
    assert written(texts("a"), texts("a", "b", "c")) == ["a", "b", "c"]
    assert written.looked_at == [{"text": "a"}]  # the report says that it was held out


def test_five_that_are_held_out_are_enough(written):
    assert written(texts(*"abcdef"), texts("z")) == [*"abcde"]


def test_of_what_was_learned_from_only_the_first_are_read(written):
    read = []
    endless = (read.append(i) or Labelled("long " * 10_000) for i in count())
    assert written([], endless) == []
    assert len(read) == MOST_READ
