"""A summarizer: what it reads, what it cuts, and how it is scored."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import summaries
import torch

import regard
from regard.core.errors import ConfigError, DataError
from regard.data.records import Document
from regard.data.splits import load_records
from regard.data.worlds import documents as documents_world
from regard.runs.prepare import prepare
from regard.runs.train import train
from regard.tasks.base import TASKS
from regard.tasks.recipe import recipe_from
from regard.tasks.summarization import evaluate_documents, fact_attention
from regard.tasks.translation_scores import watched_words

TASK = TASKS["summarization"]
LONG = "a b c d e f g h " * 4
FITS = LONG.split()[: summaries.MAX_LEN - 1]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    return regard.load(summaries.short_run(tmp_path_factory.mktemp("letters")), device="cpu")


@pytest.fixture(scope="module")
def pieces(tmp_path_factory):
    """A run whose tokens are pieces of words."""
    text = {"kind": "bpe", "vocab_size": 290}
    folder = summaries.short_run(tmp_path_factory.mktemp("pieces"), text=text)
    return regard.load(folder, device="cpu")


@pytest.fixture(scope="module")
def knowing(tmp_path_factory):
    """A run of the built-in world, with few test documents."""
    folder = tmp_path_factory.mktemp("documents")
    raw = summaries.settings(folder, model={"max_len": 144})
    raw["data"] = {"world": "documents", "document_length": 140, "n_train": 30}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents_world, "_n_test", lambda length: 6)
        train(recipe_from(raw), folder / "run")
        loaded = regard.load(folder / "run", device="cpu")
        yield loaded, load_records(loaded.recipe.data, "summary")


def test_one_document_or_many(run):
    one, other = run.summarize("a b c"), run.summarize("h g f e")
    assert run.summarize(["a b c", "", "h g f e"]) == [one, "", other]
    (text, score), _ = run.summarize("a b c", n_best=2, with_scores=True)
    assert (text, score <= 0) == (run.summarize("a b c", beam=2), True)


def test_what_is_longer_than_the_model_reads_is_refused_with_both_lengths(run):
    told = r"^33 tokens with the end token, but the model reads 24 \(model.max_len\); .*--truncate"
    with pytest.raises(DataError, match=told):
        run.summarize(LONG)
    assert run.summarize(LONG, truncate=True) == run.summarize(" ".join(FITS))
    assert run.summarize(" ".join(FITS)) == run.translate(" ".join(FITS))
    with pytest.raises(DataError, match="^25 tokens with the end token"):
        run.summarize(" ".join([*FITS, "a"]))


def test_documents_are_cut_at_the_end_of_a_word(pieces):
    document = "abcdefgh " * 9
    n_whole = len(pieces.tokenizers.source.encode(document))
    kept = pieces.cut(document)
    assert document.startswith(kept)
    assert {*kept.split()} == {"abcdefgh"}
    n_kept = len(pieces.tokenizers.source.encode(kept))
    assert n_kept < summaries.MAX_LEN <= n_whole
    one_more = document[: len(kept) + len(" abcdefgh")]
    assert len(pieces.tokenizers.source.encode(one_more)) >= summaries.MAX_LEN
    assert len(pieces.tokenizers.source.encode(pieces.cut("abcdefgh" * 9))) < summaries.MAX_LEN


def test_a_summary_that_is_cut_off_is_not_blamed_on_its_document(run):
    (line,) = run.length_warnings([], []).having(3, 9).lines()
    assert line == (
        "1 summary cut off after 9 tokens, the most that decode.max_len or the model allows; raise "
        "decode.max_len where summaries are longer"
    )


def test_a_document_without_a_known_word_is_refused(run):
    with pytest.raises(DataError, match="^the model knows no word of 'xyz 123'; take texts"):
        run.summarize(["a b", "xyz 123"])
    run.summarize("xyz a")


def test_a_recipe_may_have_long_documents_cut_else_they_are_refused(tmp_path):
    raw = summaries.settings(tmp_path)
    with (tmp_path / "train.jsonl").open("a") as file:
        file.write(summaries.lines([(LONG, "a h")]))
    told = (
        r"1 of 61 texts are longer than max_len=24 tokens, the longest has 33 .*data.truncate=true"
    )
    with pytest.raises(DataError, match=told):
        train(recipe_from(raw), tmp_path / "run")
    raw["data"]["truncate"] = True
    prepared = prepare(recipe_from(raw), torch.device("cpu"))
    assert "train: 1 pairs cut to max_len=24 tokens" in prepared.notes
    assert (len(prepared.train), prepared.train.longest) == (61, 24)


def test_scores_of_documents(run):
    documents = [Document("a b c", "a c"), Document("d e f", "d f", references=("d f", "f d"))]
    scores = evaluate_documents(run, documents, split="mine").scores
    assert (scores["task"], scores["split"], scores["n"]) == ("summarization", "mine", 2)
    assert {"rouge1", "rouge2", "rouge_l", "rouge_l_signature"} < {*scores}
    assert scores["rouge_l_multi_signature"].startswith("nrefs:var|")
    assert "facts" not in scores
    total = sum(run.score([one.source for one in documents], [one.target for one in documents]))
    n_tokens = 3 + 3  # with the end tokens
    assert scores["log_perplexity"] == pytest.approx(-total / n_tokens, rel=1e-5)
    assert scores["perplexity"] == pytest.approx(math.exp(scores["log_perplexity"]))


def test_documents_that_are_too_long_count_as_not_summarized_unless_they_are_cut(run):
    documents = [Document("a b c", "a c"), Document(LONG, "a h")]
    found = evaluate_documents(run, documents, split="mine")
    assert (found.scores["too_long"], found.outputs[1], len(found.notes)) == (1, "", 1)
    assert found.notes[0].startswith("mine: 1 document too long, summaries left empty; the longest")
    recipe = run.recipe.model_copy(
        update={"data": run.recipe.data.model_copy(update={"truncate": True})}
    )
    found = evaluate_documents(replace(run, recipe=recipe), documents, split="mine")
    assert "too_long" not in found.scores
    assert found.outputs[1] == run.summarize(LONG, truncate=True)
    assert found.scores["cut"] == 1
    assert found.notes == ("mine: 1 documents cut to max_len=24 tokens",)


def test_the_world_tells_facts_and_attention_on_them(knowing):
    run, _ = knowing
    scores = TASK.evaluate(run, "test").scores
    assert {"facts", "one_hop_facts", "two_hop_facts"} <= {*scores}
    assert 0 < scores["fact_attention_shuffled"] < 0.5
    assert scores["fact_attention_by"].startswith("decoder.cross layer 0 ")
    saved = json.loads((run.folder.path / "scores.json").read_text())["scores"]["test"]
    assert saved["fact_attention"] == pytest.approx(scores["fact_attention"], rel=1e-4)
    everything = {"facts", "one_hop_facts", "two_hop_facts", "rouge_l", "loss"}
    reports = (run.folder.path / "metrics.jsonl").read_text().split("\n")
    assert any(everything <= {*json.loads(one)} for one in reports if "rouge_l" in one)


def test_attention_on_facts_equals_loops(knowing):
    """By the weights of a look, word by word; tokens are words here."""
    run, data = knowing
    documents = data.splits["valid"][:2]
    found, by_head = fact_attention(run, documents, documents), []
    for head in (0, 1):
        masses = []
        for one in documents:
            weights = run.explain(one.source, one.target).weights("decoder.cross", 0)
            for fact in one.facts:
                for target in fact.stated:
                    masses.append(sum(weights[head, target, s] for s in fact.positions))
        by_head.append(sum(masses) / len(masses))
    assert found["fact_attention"] == pytest.approx(max(by_head), rel=1e-4)


def test_a_model_that_does_not_attend_has_no_attention_on_facts(knowing, tmp_path):
    _, data = knowing
    raw = summaries.settings(tmp_path, model={"max_len": 144})
    raw["data"] = {"world": "documents", "document_length": 140, "n_train": 8}
    raw["model"] = {"preset": "sutskever2014", "d_model": 8, "n_layers": 1, "max_len": 144}
    raw["train"]["max_steps"] = 1
    train(recipe_from(raw), tmp_path / "run")
    plain = regard.load(tmp_path / "run", device="cpu")
    assert fact_attention(plain, data.splits["valid"], data.splits["test"]) == {}


def test_a_look_is_one_at_summarization(run):
    look = run.explain("a b c", "a c")
    assert (look.task, look.answer) == ("summarization", "a c")
    assert look.weights("decoder.cross", 0).shape == (2, 3, 4)
    with pytest.raises(DataError, match="^33 tokens"):
        run.explain(LONG)


def test_heads_are_measured_on_documents(run):
    subject = TASK.subject(run, "test", 3)
    assert (subject.n, {"loss", "bleu"} <= {*subject.judge()}) == (3, True)


def test_alignments_are_no_matter_of_summaries(run, tmp_path):
    with pytest.raises(ConfigError, match="leave out --alignments"):
        TASK.score_alignments(run, tmp_path, tmp_path)


def test_a_run_says_what_it_is(run):
    assert "summarization" in repr(run)
    assert "languages" not in str(run)
    assert "languages" not in run.facts()


def test_a_decoder_that_reads_both_as_one_text_is_watched_where_targets_look_at_sources():
    """Columns are source and target; slots are a null, then three positions each."""
    pair = Document("a b c d e f g", "a g")
    n_source, n_target = 7 + 1, 2 + 1
    plain = np.random.default_rng(0).random((2, n_target, n_source + n_target))
    slots = np.random.default_rng(1).random((2, n_target, 1 + (n_source + n_target) // 3))
    look = SimpleNamespace(attentions={"decoder.self": [plain], "decoder.self.compressed": [slots]})
    words = SimpleNamespace(word_ids=lambda text: list(range(len(text.split()))))
    reader = SimpleNamespace(
        model=SimpleNamespace(reads_as_one=True),
        tokenizers=SimpleNamespace(source=words, target=words),
        explain=lambda source, target: look,
    )
    (found,) = watched_words(reader, [pair], "decoder.cross", [[(6, 1)]])
    assert found.links == ((6, 1),)
    for head in (0, 1):
        matrix = found.weights[f"decoder.self layer 0 head {head}"]
        spread = found.weights[f"decoder.self.compressed layer 0 head {head}"]
        assert matrix.shape == spread.shape == (2, 7)
        for t in range(2):
            for s in range(7):
                assert matrix[t, s] == pytest.approx(plain[head, t, s])
                assert spread[t, s] == pytest.approx(slots[head, t, 1 + s // 3] / 3)
