"""The tree of a beam search is what the search did, told by loops."""

import math

import pytest
import torch
from table_model import TableModel, fixed_table, random_table, sources

from regard.core.errors import ConfigError, ShapeError
from regard.decoding.beam import beam_search
from regard.decoding.trace import trace
from regard.text.specials import BEGIN_ID, END_ID, PAD_ID

ROW = (5, 4)
ALPHA = 0.6
SETTINGS = [(n_beams, seed) for n_beams in (1, 2, 4) for seed in range(4)]
every_search = pytest.mark.parametrize(("n_beams", "seed"), SETTINGS)


def searched(table, n_beams, limit=7, prefix=()):
    settings = {"limits": torch.tensor([limit]), "n_beams": n_beams, "length_penalty": ALPHA}
    nodes = trace(TableModel(table), sources(ROW), **settings, prefix=prefix)
    ((best,),) = beam_search(TableModel(table), sources(ROW), **settings, prefixes=[prefix])
    return nodes, best


def spelled(nodes, node):
    ids = []
    while node.parent is not None:
        ids.insert(0, node.token_id)
        node = nodes[node.parent]
    return tuple(ids)


def log_probs_by_loops(table, ids):
    logits = table(ROW, (BEGIN_ID, *ids)).tolist()
    norm = math.log(sum(math.exp(x) for x in logits))
    return {i: x - norm for i, x in enumerate(logits) if i not in (PAD_ID, BEGIN_ID)}


def beams_by_loops(table, n_beams, n_steps):
    """[(looked at, open, finished)] a step; each {ids: log-probability}."""
    open_, steps = {(): 0.0}, []
    for _ in range(n_steps):
        grown = sorted(
            (
                ((*ids, token), total + more)
                for ids, total in open_.items()
                for token, more in log_probs_by_loops(table, ids).items()
            ),
            key=lambda pair: -pair[1],
        )[: 2 * n_beams]
        going_on = [pair for pair in grown if pair[0][-1] != END_ID]
        if n_beams == 1:
            going_on = [pair for pair in grown[:1] if pair[0][-1] != END_ID]  # greedy ends at once
        finished = [pair for pair in grown[:n_beams] if pair[0][-1] == END_ID]
        open_ = dict(going_on[:n_beams])
        steps.append((dict(grown), open_, dict(finished)))
    return steps


def kept(node):
    return node.state == "open" or node.why.startswith(("cannot win", "cut off", "the best, cut"))


@every_search
def test_the_nodes_are_what_a_plain_search_looks_at_keeps_and_finishes_at_every_step(n_beams, seed):
    table = random_table(seed, n_vocab=7, end=0.5)
    nodes, _ = searched(table, n_beams)
    last = max(node.step for node in nodes)
    for t, (looked_at, open_, finished) in enumerate(beams_by_loops(table, n_beams, last), 1):
        here = [node for node in nodes if node.step == t]
        assert {spelled(nodes, node): pytest.approx(node.total) for node in here} == looked_at
        assert {spelled(nodes, node) for node in here if kept(node)} == set(open_)
        ended = [node for node in here if node.token_id == END_ID and node.state != "pruned"]
        assert {spelled(nodes, node) for node in ended} == set(finished)


@every_search
def test_the_best_path_spells_what_the_search_returns(n_beams, seed):
    nodes, best = searched(random_table(seed, n_vocab=7, end=0.5), n_beams)
    (winner,) = [node for node in nodes if node.state == "best"]
    assert spelled(nodes, winner) == (*best.ids, *([END_ID] if best.finished else []))
    assert winner.score == best.score
    assert winner.total == pytest.approx(best.log_prob)


@every_search
def test_a_search_that_is_observed_finds_the_same_to_the_bit(n_beams, seed):
    table = random_table(seed, n_vocab=7, end=0.5)
    rows = sources(ROW, (3,), (4, 4, 3, 5))
    settings = {"limits": torch.tensor([6, 3, 9]), "n_beams": n_beams, "n_best": n_beams}
    told = []
    plain = beam_search(TableModel(table), rows, **settings)
    assert beam_search(TableModel(table), rows, **settings, observer=told.append) == plain
    assert told
    sentences = {sentence for step in told for sentence in step.sentences.tolist()}
    assert sentences == {0, 1, 2}


@every_search
def test_what_has_ended_is_not_kept(n_beams, seed):
    told = []
    settings = {"limits": torch.tensor([9]), "n_beams": n_beams, "observer": told.append}
    model = TableModel(random_table(seed, n_vocab=7, end=0.5))
    beam_search(model, sources(ROW), **settings)
    for step in told:
        candidates = [step.candidates.ids[0, i].item() for i in step.kept[0].tolist() if i >= 0]
        assert END_ID not in candidates
        assert step.kept.shape == (1, n_beams)


@every_search
def test_scores_are_found_again_by_a_plain_forward(n_beams, seed):
    table = random_table(seed, n_vocab=7, end=0.5)
    nodes, _ = searched(table, n_beams)
    assert (nodes[0].id, nodes[0].parent, nodes[0].step, nodes[0].token_id) == (0, None, 0, 1)
    for node in nodes[1:]:
        ids = spelled(nodes, node)
        assert len(ids) == node.step
        target = torch.tensor([[BEGIN_ID, *ids[:-1]]])
        said = TableModel(table)(sources(ROW), target)[0].log_softmax(-1)
        total = sum(said[t, token].item() for t, token in enumerate(ids))
        assert node.log_prob == pytest.approx(said[-1, ids[-1]].item())
        assert node.total == pytest.approx(total)
        n = len(ids) if node.state in ("finished", "best") else 1
        assert node.score == pytest.approx(total / ((5 + n) / 6) ** ALPHA)


def test_reasons_worked_by_hand():
    """End has 0.4, the words 0.35 and 0.25; two beams, α = 0.6, limit 5: (10/6)^0.6 = 1.359.

    step 1: end finishes with log 0.4 = -0.92; 3 and 4 go on, as log 0.35 / 1.359 = -0.77 could win
    step 2: 3-end 0.14 finishes, 3-3 0.1225 goes on, 4-end 0.1 is third of two; and now the best
    open one, log 0.1225 / 1.359 = -1.55, cannot win any more
    """
    nodes, best = searched(fixed_table(0.0, 0.0, 0.4, 0.35, 0.25), 2, limit=5)
    assert best.ids == ()
    by_ids = {spelled(nodes, node): node for node in nodes}
    assert by_ids[END_ID,].why == "the best that finished"
    assert by_ids[3,].why == by_ids[4,].why == "among the best 2"
    worse = math.log(0.14) / (7 / 6) ** 0.6
    assert by_ids[3, END_ID].state == "finished"
    assert by_ids[3, END_ID].why == (
        f"finished but no better than the best ({worse:.3f} against {math.log(0.4):.3f})"
    )
    assert by_ids[3, 3].state == by_ids[4, END_ID].state == "pruned"
    assert by_ids[3, 3].why == "cannot win any more"
    assert by_ids[4, END_ID].why == "ended outside the best 2"
    assert max(node.step for node in nodes) == 2


def test_what_is_left_out_says_why():
    """Two words have 0.45 each: the end token, third of three, is not among the first two."""
    nodes, _ = searched(fixed_table(0.0, 0.0, 0.1, 0.45, 0.44, 0.01), 2, limit=1)
    by_ids = {spelled(nodes, node): (node.state, node.why) for node in nodes}
    assert by_ids[3,] == ("best", "the best, cut off by the limit")
    assert by_ids[4,] == ("pruned", "cut off by the limit of 1")
    assert by_ids[END_ID,] == ("pruned", "ended outside the best 2")
    assert by_ids[5,] == ("pruned", "outside the best 2")


@pytest.mark.parametrize("number", [PAD_ID, BEGIN_ID, 7, -1])
@pytest.mark.parametrize("n_beams", [1, 3])
def test_a_prefix_that_cannot_be_written_is_refused(n_beams, number):
    with pytest.raises(ConfigError, match=f"id {number} at position 1"):
        searched(random_table(3, n_vocab=7, end=-1.0), n_beams, prefix=(6, number))


@pytest.mark.parametrize("n_beams", [1, 2, 4])
def test_a_search_from_a_prefix_begins_with_it_and_goes_on_as_if_it_had_chosen_it(n_beams):
    table = random_table(3, n_vocab=7, end=-1.0)
    prefix = (6, 3)
    nodes, best = searched(table, n_beams, limit=6, prefix=prefix)
    assert best.ids[:2] == prefix
    given = [node for node in nodes if 1 <= node.step <= 2]
    assert [node.token_id for node in given] == list(prefix)
    assert [node.why for node in given] == ["given", "given"]
    said = log_probs_by_loops(table, ())[6] + log_probs_by_loops(table, (6,))[3]
    assert given[-1].total == pytest.approx(said)
    later = random_table(3, n_vocab=7, end=-1.0)
    after, rest = searched(lambda s, p: later(s, (BEGIN_ID, *prefix, *p[1:])), n_beams, limit=4)
    mine = {spelled(nodes, node)[2:] for node in nodes if node.step > 2 and kept(node)}
    theirs = {spelled(after, node) for node in after if node.step and kept(node)}
    shared = min(max(node.step for node in nodes) - 2, max(node.step for node in after))
    assert {ids for ids in mine if len(ids) < shared} == {i for i in theirs if len(i) < shared}
    if n_beams == 1:
        assert rest.ids == best.ids[2:]


def test_a_tree_is_of_one_sentence():
    model = TableModel(random_table(0, n_vocab=7))
    with pytest.raises(ShapeError, match="one sentence, got 2"):
        trace(model, sources((5,), (4,)), limits=torch.tensor([3, 3]), n_beams=2)


def test_of_equals_the_tree_shows_the_one_that_was_taken():
    logits = torch.zeros(100, dtype=torch.float64)
    logits[[33, 50, 98]] = 5.0
    nodes, best = searched(lambda _source, _prefix: logits, 1, limit=3)
    assert best.ids == (33, 33, 33)
    assert best.ids in {spelled(nodes, node) for node in nodes}
