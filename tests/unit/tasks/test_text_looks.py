"""Looks at encoders and language models: the numbers of a forward pass that is written out here."""

import json
import math
from itertools import product

import numpy as np
import pytest
import torch
from looked_at import NAMES, encoder_run, writer_run

from regard.core.errors import ConfigError, DataError
from regard.inspection.edits import Ablate, Force, NoPositions, Temperature, edited
from regard.tasks.edits import ForceToken, Swap

TASKS = ("classification", "masked", "similarity", "answers")
TEXTS = {"answers": ("a b", "c d e f")}


def looked(task, **changes):
    return encoder_run(task, **changes).explain(*TEXTS.get(task, ("c a d a",)))


def turned(vector, at, base):
    """Rotary positions by the definition: the pair (2i, 2i+1) turned by at / base^(2i/d)."""
    d, out = len(vector), []
    for i in range(d // 2):
        angle = at / base ** (2 * i / d)
        a, b = vector[2 * i], vector[2 * i + 1]
        out += [
            a * math.cos(angle) - b * math.sin(angle),
            a * math.sin(angle) + b * math.cos(angle),
        ]
    return out


def written_out(attention, y, *, causal, base=None):
    """Queries (H, T, d), keys, values (H, S, d), scores and weights of one attention, by loops."""
    q, k, v = ((to(y)).double() for to in (attention.to_q, attention.to_k, attention.to_v))
    H, n_kv, T = attention.n_heads, attention.n_kv_heads, len(y)
    d = q.shape[-1] // H
    queries, keys, values, scores, weights = ([] for _ in range(5))
    for h in range(H):
        g = h * n_kv // H  # the key that this head shares
        mine = [q[t, h * d : (h + 1) * d].tolist() for t in range(T)]
        theirs = [k[s, g * d : (g + 1) * d].tolist() for s in range(T)]
        if base is not None:
            mine = [turned(one, t, base) for t, one in enumerate(mine)]
            theirs = [turned(one, s, base) for s, one in enumerate(theirs)]
        dots = [[sum(a * b for a, b in zip(x, z, strict=True)) for z in theirs] for x in mine]
        rows = []
        for t in range(T):
            seen = range(t + 1) if causal else range(T)
            powers = [math.exp(dots[t][s] / math.sqrt(d)) if s in seen else 0.0 for s in range(T)]
            rows.append([power / sum(powers) for power in powers])
        queries.append(mine)
        keys.append(theirs)
        values.append([v[s, g * d : (g + 1) * d].tolist() for s in range(T)])
        scores.append(dots)
        weights.append(rows)
    return tuple(map(np.array, (queries, keys, values, scores, weights)))


@torch.no_grad()
def oracle(model, x, *, causal, base=None):
    """What each layer's attention is, in a forward pass of its own; x (T, D) is the embedding."""
    found = []
    for layer in model.layers:
        y = layer.around_self.enter(x)
        found.append(written_out(layer.self_attention, y, causal=causal, base=base))
        sums = np.einsum("hts,hsd->thd", found[-1][4], found[-1][2]).reshape(len(x), -1)
        added = layer.self_attention.to_out(torch.tensor(sums, dtype=x.dtype))
        x = layer.around_self.leave(x, added)
        y = layer.feed_forward(layer.around_feed_forward.enter(x))
        x = layer.around_feed_forward.leave(x, y)
    return found


@pytest.mark.parametrize("task", TASKS)
def test_an_encoder_shows_the_weights_of_its_forward_pass(task):
    run = encoder_run(task)
    texts = TEXTS.get(task, ("c a d a",))
    look = run.explain(*texts)
    ids, segments = run.layout.row(*map(run.tokenizer.encode, texts))
    assert look.source_tokens == tuple(run.tokenizer.tokens(ids))
    assert (look.target_tokens, look.answer) == ((), look.outcome.text)
    assert (look.as_json()["answer"], look.as_json()["translation"]) == (look.answer, "")
    with pytest.raises(AttributeError, match="has no translation; see answer"):
        _ = look.translation
    x = run.model.embedding(torch.tensor([ids]), segments=torch.tensor([segments]))[0]
    for layer, (*_, weights) in enumerate(oracle(run.model, x, causal=False)):
        np.testing.assert_allclose(look.weights("encoder.self", layer), weights, atol=1e-5)
        np.testing.assert_allclose(look.weights("encoder.self", layer).sum(-1), 1, rtol=1e-5)


def test_a_language_model_shows_its_grouped_and_turned_heads_step_by_step():
    run = writer_run()
    look = run.explain("a b c", "d a b")
    ids = [*run.framing.read("a b c"), *run.framing.inside("d a b")]
    x = run.model.embedding(torch.tensor([ids]))[0]
    base = run.model.config.rotary_base
    for layer, (q, k, v, scores, weights) in enumerate(
        oracle(run.model, x, causal=True, base=base)
    ):
        np.testing.assert_allclose(look.weights("decoder.self", layer), weights, atol=1e-5)
        to_out = run.model.layers[layer].self_attention.to_out.weight.detach().T
        for head, token in np.ndindex(4, len(ids)):
            steps = look.steps(token, layer=layer, head=head)
            seen = slice(token + 1)
            near = {"rtol": 1e-4, "atol": 1e-4}
            np.testing.assert_allclose(steps.query, q[head, token], **near)
            np.testing.assert_allclose(steps.keys, k[head], **near)
            np.testing.assert_allclose(steps.scores[seen], scores[head, token, seen], **near)
            assert steps.scale == pytest.approx(1 / math.sqrt(6))
            np.testing.assert_allclose(steps.weights, weights[head, token], **near)
            np.testing.assert_allclose(steps.values, v[head], **near)
            total = weights[head, token] @ v[head]
            np.testing.assert_allclose(steps.sum, total, **near)
            out = torch.tensor(total, dtype=torch.float32) @ to_out.unflatten(0, (4, -1))[head]
            np.testing.assert_allclose(steps.projected, out, rtol=1e-3, atol=1e-3)


def test_nobody_looks_ahead_and_rows_sum_to_one():
    look = writer_run().explain("a b", max_tokens=5)
    T = len(look.source_tokens) + len(look.target_tokens)
    for weights in look.attentions["decoder.self"]:
        assert weights.shape == (4, T, T)
        assert (weights[:, np.triu_indices(T, 1)[0], np.triu_indices(T, 1)[1]] == 0).all()
        np.testing.assert_allclose(weights.sum(-1), 1, rtol=1e-5)


def test_row_t_of_a_language_model_has_read_token_t():
    run = writer_run()
    look = run.explain("a b c", "d")
    assert look.source_tokens[-3:] == ("a", "b", "c")
    assert look.target_tokens == ("d",)
    rows, columns = look.tokens_of("decoder.self")
    assert rows == columns == (*look.source_tokens, "d")
    logits = run.model(torch.tensor([[*run.framing.read("a b c"), *run.framing.inside("d")]]))[0]
    for t, place in enumerate(look.outcome.places):
        assert place.rows == (t, t + 1)
        shares = logits[t].softmax(-1)
        best = shares.argsort(descending=True)[:5]
        assert [one.text for one in place.choices] == run.tokenizer.tokens(best.tolist())
        found = [one.probability for one in place.choices]
        np.testing.assert_allclose(found, shares[best].tolist(), rtol=1e-5)


def test_without_a_continuation_the_most_probable_tokens_follow():
    run = writer_run()
    look = run.explain("a b", max_tokens=4)
    assert look.answer == look.outcome.text == run.generate("a b", max_new=4, temperature=0)
    ids = run.framing.read("a b")
    for token in look.target_tokens:
        logits = run.model(torch.tensor([ids]))[0, -1]
        logits[list(run.framing.hidden_ids)] = -torch.inf
        ids.append(int(logits.argmax()))
        assert run.tokenizer.tokens(ids[-1:]) == [token]
    assert len(look.target_tokens) <= 4
    assert run.explain("a b", max_tokens=0).target_tokens == ()


def test_the_context_is_never_left():
    run = writer_run(positions="learned", max_len=9)
    look = run.explain("a b c d", max_tokens=50)
    assert len(look.source_tokens) + len(look.target_tokens) <= 9
    with pytest.raises(DataError, match="9; take a part"):
        run.explain("a b c d", "a b c d e f g h")


@pytest.mark.parametrize("task", TASKS)
def test_the_payload_has_all_that_pictures_need(task):
    payload = json.loads(json.dumps(looked(task).as_json(), allow_nan=False))
    assert payload["task"] == task
    assert payload["axes"] == {"encoder.self": {"rows": "source", "columns": "source"}}
    n = len(payload["source_tokens"])
    assert np.array(payload["attentions"]["encoder.self"]).shape == (2, 3, n, n)
    assert set(payload["outcome"]) == {"kind", "text", "places"}


def test_a_language_models_payload_tells_rows_and_columns_of_the_whole_text():
    payload = json.loads(json.dumps(writer_run().explain("a b", "c").as_json(), allow_nan=False))
    assert payload["task"] == "language"
    assert payload["axes"] == {"decoder.self": {"rows": "text", "columns": "text"}}
    assert (payload["source"], payload["translation"]) == ("a b", payload["outcome"]["text"])
    assert payload["translation"].strip() == "c"


def test_the_outcome_of_a_classifier_is_what_it_says():
    run = encoder_run("classification")
    outcome = run.explain("c a d").outcome
    expected = run.probabilities(["c a d"])[0]
    assert outcome.text == run.classify("c a d")
    ((rows, choices),) = outcome.places
    assert rows is None
    assert {one.text for one in choices} == set(NAMES)
    for one in choices:
        assert one.probability == pytest.approx(expected[NAMES.index(one.text)], rel=1e-5)
    assert list(choices) == sorted(choices, key=lambda one: -one.probability)


def test_the_outcome_of_a_filler_is_what_it_fills():
    run = encoder_run("masked")
    look = run.explain("a <mask> c <mask>")
    filled = run.fill("a <mask> c <mask>")
    assert look.outcome.text == filled.text
    for place, guesses in zip(look.outcome.places, filled.masks, strict=True):
        assert look.source_tokens[place.rows[0]] == "<mask>"
        assert [one.text for one in place.choices] == [guess.token for guess in guesses]
    assert run.explain("a b").outcome.places == ()


@torch.no_grad()
def test_the_outcome_of_an_answerer_is_the_best_span_of_the_text():
    run = encoder_run("answers")
    look = run.explain("a b", "c d e f")
    ids, segments = run.layout.row(*map(run.tokenizer.encode, ("a b", "c d e f")))
    logits = run.model(torch.tensor([ids]), segments=torch.tensor([segments]))[0]
    starts, ends = logits[[0, 4, 5, 6, 7]].softmax(dim=0).unbind(-1)  # the first is: not here
    shares = {
        (4 + i, 5 + j): float(starts[1 + i] * ends[1 + j]) for i in range(4) for j in range(i, 4)
    }
    best = max(shares, key=shares.get)
    (place,) = look.outcome.places
    assert place.rows == best
    assert look.outcome.text == " ".join(look.source_tokens[slice(*best)])
    assert place.choices[0].probability == pytest.approx(shares[best], rel=1e-5)


# ---------------------------------------------------------------- what if


@pytest.mark.parametrize(
    "run", [encoder_run("classification"), writer_run()], ids=["read", "write"]
)
def test_an_edit_changes_what_it_says_and_is_gone_afterwards(run):
    plain = run.explain("a b c")
    name = next(iter(plain.attentions))
    ablated = run.explain("a b c", edit=Ablate(name, 1, 2))
    assert (ablated.weights(name, 1)[2] == 0).all()
    assert (ablated.weights(name, 1)[:2].sum(-1) > 0.99).all()
    below = (0, slice(3), slice(3))  # of the layer before it, and of what was given
    np.testing.assert_array_equal(ablated.weights(name, 0)[below], plain.weights(name, 0)[below])
    assert ablated.outcome.places[-1] != plain.outcome.places[-1]
    forced = run.explain(
        "a b c", edit={"kind": "force", "name": name, "layer": 0, "head": 1, "key": 0}
    )
    assert (forced.weights(name, 0)[1, :, 0] == 1).all()
    flat = run.explain("a b c", edit=Temperature(1e5))
    sharp = flat.weights(name, 0)[0, 2]
    np.testing.assert_allclose(sharp[sharp > 0], 1 / (sharp > 0).sum(), atol=1e-3)
    again = run.explain("a b c")
    np.testing.assert_array_equal(again.weights(name, 1), plain.weights(name, 1))
    assert again.outcome == plain.outcome
    with pytest.raises(ConfigError, match=f"known: {name} 0"):
        run.explain("a b c", edit=Ablate("decoder.cross", 0, 0))
    with pytest.raises(ConfigError, match="has keys 0 to"):
        run.explain("a b c", edit=Force(name, 0, 0, key=99))


def test_without_positions_the_order_of_words_changes_nothing():
    run = encoder_run("classification", pooling="mean")

    def shares(text, edit=()):
        (place,) = run.explain(text, edit=edit).outcome.places
        return {one.text: pytest.approx(one.probability, rel=1e-4) for one in place.choices}

    def told(text, edit=()):
        (place,) = run.explain(text, edit=edit).outcome.places
        return {one.text: one.probability for one in place.choices}

    assert told("a b c") != shares("c b a")
    assert told("a b c", NoPositions()) == shares("c b a", NoPositions())
    assert told("a b c", Swap(0, 2)) == shares("c b a")


def test_turned_heads_lose_their_positions_too():
    """Nothing is turned: then the same letter has the same key wherever it stands."""
    run = writer_run()
    keys = run.explain("a b a", "a", edit=NoPositions()).steps(3, layer=0).keys
    np.testing.assert_allclose(keys[-1], keys[-2], atol=1e-6)
    keys = run.explain("a b a", "a").steps(3, layer=0).keys
    assert np.abs(keys[-1] - keys[-2]).max() > 1e-3


def test_a_language_model_can_be_told_what_to_say():
    run = writer_run()
    plain = run.explain("a b", max_tokens=5)
    told = run.explain("a b", max_tokens=5, edit=ForceToken(1, "h"))
    assert told.target_tokens[0] == plain.target_tokens[0]
    assert told.target_tokens[1] == "h"
    assert told.answer.split()[1] == "h"
    ended = run.explain("a b", max_tokens=5, edit=ForceToken(1, "</s>"))
    assert ended.target_tokens == plain.target_tokens[:1]
    with pytest.raises(ConfigError, match="force_token.position"):
        run.explain("a b", max_tokens=2, edit=ForceToken(9, "h"))


def test_a_language_model_writes_under_the_edit():
    run, edit = writer_run(), Ablate("decoder.self", 0, 1)
    look = run.explain("a b", max_tokens=6, edit=edit)
    assert look.target_tokens != run.explain("a b", max_tokens=6).target_tokens
    ids = run.framing.read("a b")
    with torch.no_grad(), edited(run.model, [edit]):
        for token in look.target_tokens:
            logits = run.model(torch.tensor([ids]))[0, -1]
            logits[list(run.framing.hidden_ids)] = -torch.inf
            ids.append(int(logits.argmax()))
            assert run.tokenizer.tokens(ids[-1:]) == [token]


def test_an_encoder_has_no_token_to_force():
    with pytest.raises(ConfigError, match="reads and writes nothing"):
        encoder_run("masked").explain("a b", edit=ForceToken(0, "a"))


# ---------------------------------------------------------------- pairs and limits


def test_a_pair_may_have_a_tab_between_its_texts():
    run = encoder_run("classification", pairs=True)
    look, same = run.explain("a b", "c d"), run.explain("a b\tc d")
    assert look.source == same.source == "a b\tc d"
    assert look.source_tokens == ("<s>", "a", "b", "</s>", "c", "d", "</s>")
    np.testing.assert_array_equal(look.weights("encoder.self"), same.weights("encoder.self"))
    alone = encoder_run("classification").explain("a b")
    assert look.outcome.text == run.classify(("a b", "c d"))
    assert alone.source_tokens == ("<s>", "a", "b", "</s>")
    with pytest.raises(DataError, match="reads pairs of texts"):
        run.explain("a b")
    with pytest.raises(DataError, match="reads each text alone"):
        encoder_run("masked").explain("a", "b")


def test_an_imported_classifier_is_looked_at_with_one_text_or_two():
    run, told = (encoder_run("classification", pairs=pairs) for pairs in (None, True))
    both = run.explain("a b", "c d")
    assert both.source_tokens == told.explain("a b\tc d").source_tokens
    assert both.outcome.text == run.classify(("a b", "c d"))
    alone = run.explain("a b")
    assert alone.source_tokens == ("<s>", "a", "b", "</s>")
    assert alone.outcome.text == run.classify("a b")


def test_a_text_that_is_too_long_is_cut_and_that_is_told():
    run = encoder_run("similarity")
    look = run.explain("a b c d e f g h " * 3)
    assert len(look.source_tokens) == 16
    assert "16 tokens that the model reads" in look.warnings[0]
    assert encoder_run("similarity").explain("a b").warnings == ()


@pytest.mark.parametrize("run", [encoder_run("masked"), writer_run()], ids=["read", "write"])
def test_a_look_that_would_fill_the_memory_is_refused(run, monkeypatch):
    monkeypatch.setattr("regard.tasks.look.MOST_WEIGHTS", 6 * 25)
    with pytest.raises(DataError, match="tokens can be looked at, and the text has"):
        run.explain("a b c d e f")


@pytest.mark.parametrize("text", ["", " "])
def test_there_is_nothing_to_see_in_nothing(text):
    with pytest.raises(DataError, match="nothing to look at"):
        encoder_run("similarity").explain(text)


# ---------------------------------------------------------------- showing


@pytest.mark.parametrize("task", [*TASKS, "language"])
def test_every_form_of_file_can_be_made(task, tmp_path):
    look = writer_run().explain("a b", "c d") if task == "language" else looked(task)
    begins = {"html": "<!DOCTYPE html>", "svg": "<svg", "json": "{", "tex": "\\begin"}
    begins["csv"] = '"decoder.self' if task == "language" else '"encoder.self'  # where, in words
    for form, begin in begins.items():
        look.save(tmp_path / f"look.{form}")
        assert (tmp_path / f"look.{form}").read_text().startswith(begin)
    n = len(look.source_tokens) + len(look.target_tokens)
    assert len((tmp_path / "look.csv").read_text().splitlines()) == 1 + n
    assert "<iframe" in look._repr_html_()
    assert look.rollout().shape == (n, n)
    np.testing.assert_allclose(look.rollout().sum(-1), 1, rtol=1e-6)
    assert look.steps(0).name == next(iter(look.attentions))


def test_printed_it_says_what_came_out():
    said = str(encoder_run("classification", pairs=True).explain("a b", "c d"))
    first, second, label, shares, *_ = said.split("\n")
    assert (first, second) == ("a b", "c d")
    assert label in NAMES
    assert shares.startswith(f"{label} ")
    assert shares.count("%") == 3
    filled = str(encoder_run("masked").explain("<mask> b <mask>"))
    assert "<mask> 1: " in filled
    assert "<mask> 3: " in filled
    assert repr(encoder_run("similarity").explain("a b")).startswith(
        "<Look at 'a b': encoder.self 2"
    )
    assert "→" in repr(writer_run().explain("a b", "c"))


def test_unknown_words_are_named():
    assert encoder_run("masked").unknown_words("a zebra b") == ["zebra"]


def test_a_token_that_fills_the_context_is_written_and_not_looked_at():
    run = writer_run(max_len=6)
    for prompt in map(" ".join, product("abcdefgh", repeat=3)):
        text = run.generate(prompt, max_new=50, temperature=0)
        ids = [*run.framing.read(prompt), *run.framing.inside(text)]
        if len(ids) == 7:  # the last one is never read
            break
    for look in (run.explain(prompt, text), run.explain(prompt, max_tokens=50)):
        assert look.answer == look.outcome.text == text
        assert [*look.source_tokens, *look.target_tokens] == run.tokenizer.tokens(ids[:-1])
        assert look.weights("decoder.self").shape[-2:] == (6, 6)
    with pytest.raises(DataError, match="8 tokens, but the model's context holds 6"):
        run.explain(prompt, text + " a")


@pytest.mark.parametrize("context", ["c d e f", "a", "c d  e f"])
def test_an_answer_is_as_sure_in_a_look_as_it_is_said(context):
    run = encoder_run("answers")
    said = run.answer("a b", context, top=5)
    (place,) = run.explain("a b", context).outcome.places
    assert [text for text, _ in place.choices] == [one.text for one in said]
    shares = [one.probability for one in said]
    assert [share for _, share in place.choices] == pytest.approx(shares, rel=1e-5)


def test_a_look_at_a_question_about_nothing_has_no_answer():
    outcome = encoder_run("answers").explain("a b", "").outcome
    assert (outcome.kind, outcome.text, outcome.places) == ("answer", "", ())


def test_an_answerer_embeds_texts_and_counts_those_that_are_cut():
    run = encoder_run("answers")
    texts = ["a b", "a " * 14, "a " * 15]  # 16 positions, of which two are begin and end
    assert run.embed(texts).shape == (3, 12)
    assert run.n_cut(texts) == 1


def test_texts_without_a_token_have_no_word_to_guess():
    with pytest.raises(DataError, match="no word that could be left out"):
        encoder_run("masked").scored([], "test")
