"""Conversations: what the model reads, what ends its turns, and what does not fit."""

import json

import pytest
from chats import CHATML, chat_folder

from regard.core.errors import CheckpointError, ConfigError, DataError
from regard.decoding.sampling import seeded
from regard.tasks.chat import ChatPrompts, load_prompts
from regard.tasks.opening import load

ADA = [{"role": "user", "content": "i am ada"}]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return chat_folder(tmp_path_factory.mktemp("chat"))


@pytest.fixture(scope="module")
def run(folder):
    return load(folder, device="cpu")


@pytest.fixture
def template(folder):
    """Write another template, for one test."""
    path = folder / "chat_template.jinja"
    yield path
    path.write_text(CHATML)


def prompts(run):
    return load_prompts(run.folder.path, run.tokenizer, run.context)


def of(run, *words):
    """Ids of texts and of special tokens that are spelled alone."""
    special = {"<e>": 0, "<|turn|>": 1, "<|over|>": 2}
    return [
        number
        for one in words
        for number in ([special[one]] if one in special else run.tokenizer.encode(one))
    ]


def test_a_conversation_as_the_model_reads_it(run):
    asked = [
        *ADA,
        {"role": "assistant", "content": "hi"},
        {"role": "user", "content": " <|over|> "},
    ]
    wanted = of(run, "<e>", "<|turn|>", "user:i am ada", "<|over|>")
    wanted += of(run, "<|turn|>", "assistant:hi", "<|over|>")
    wanted += [*of(run, "<|turn|>", "user:"), *run.tokenizer.encode("<|over|>")]
    wanted += of(run, "<|over|>", "<|turn|>", "assistant:")
    assert prompts(run).ids(asked) == wanted


def test_a_turn_ends_with_the_token_of_the_template(run):
    talk = run.conversation(ADA)
    assert talk.prompts.end_of_turn() == 2
    assert talk.config.control.ends == {0, 2}
    assert 2 not in talk.config.control.suppressed


def test_a_template_that_knows_no_answers_leaves_the_end_of_a_text(run, template):
    template.write_text("{% if messages[1] %}{{ raise_exception('no') }}{% endif %}go:")
    assert run.conversation(ADA).config.control.ends == {0}


def test_what_is_said_is_what_the_pen_writes(run):
    ids, ends = prompts(run).ids(ADA), set()
    for seed in range(6):
        talk = run.conversation(max_new=9, seed=seed)
        pieces = list(talk.stream("i am ada"))
        ((wanted,),) = run.generator.texts([ids], talk.config, rng=seeded(seed))
        assert "".join(pieces) == wanted.text
        assert talk.finished == wanted.finished
        assert talk.messages == [*ADA, {"role": "assistant", "content": wanted.text}]
        assert run.chat(ADA, max_new=9, seed=seed) == wanted.text
        ends.add((talk.finished, bool(wanted.text)))
    assert ends >= {(True, True), (False, True)}  # some end themselves, some by the limit


def test_turns_are_remembered(run):
    talk = run.conversation(max_new=3, temperature=0)
    talk.say("a")
    talk.say("b")
    assert [one["role"] for one in talk.messages] == ["user", "assistant"] * 2
    again = run.chat(talk.messages[:3], max_new=3, temperature=0)
    assert again == talk.messages[3]["content"]


def test_whoever_stops_listening_has_heard_so_much(run):
    seeds = (run.conversation(max_new=9, seed=seed) for seed in range(50))
    talk = next(talk for talk in seeds if len(list(talk.stream("a"))) > 2)
    talk.rng, talk.messages = seeded(talk.rng.initial_seed()), []
    pieces = talk.stream("a")
    first = next(pieces)
    pieces.close()
    assert talk.messages[-1] == {"role": "assistant", "content": first}
    assert not talk.finished


def turns(n):
    return [
        {"role": role, "content": f"{i} {role}"} for i in range(n) for role in ("user", "assistant")
    ][:-1]


def test_a_conversation_beyond_the_context_is_refused_with_both_lengths(run):
    n = len(prompts(run).ids(turns(9)))
    assert n > 120
    with pytest.raises(DataError, match=f"has {n} tokens.* holds 120; .*--truncate left"):
        run.chat(turns(9))
    talk = run.conversation(turns(9)[:-1])
    with pytest.raises(DataError):
        talk.stream("more")
    assert talk.messages == turns(9)[:-1]  # it can go on with fewer words


def test_the_oldest_turns_are_dropped_and_the_system_stays(run):
    told = {"role": "system", "content": "short"}
    found = prompts(run).fitting([told, *turns(9)], max_new=30, truncate="left")
    for kept in range(1, 9):
        wanted = prompts(run).ids([told, *turns(9)[-2 * kept + 1 :]])
        longer = prompts(run).ids([told, *turns(9)[-2 * kept - 1 :]])
        if len(longer) > 120 + 1 - 30:
            break
    assert found == wanted
    assert len(found) <= 120 + 1 - 30 < len(longer)


def test_few_conversations_are_written_down_to_find_what_fits(run, monkeypatch):
    written = []
    ids = ChatPrompts.ids
    monkeypatch.setattr(ChatPrompts, "ids", lambda self, one: written.append(1) or ids(self, one))
    prompts(run).fitting(turns(60), max_new=30, truncate="left")
    assert len(written) <= 8  # of 60


def test_what_fits_is_left_alone(run):
    assert prompts(run).fitting(ADA, max_new=500, truncate="left") == prompts(run).ids(ADA)


def test_a_last_turn_that_is_too_long_alone(run):
    long = [*ADA, {"role": "user", "content": "x" * 130}]
    with pytest.raises(DataError, match="the last turn alone has .* holds 120; shorten it"):
        run.chat(long, truncate="left")


@pytest.mark.parametrize(
    ("messages", "why"),
    [
        ([], "expected a conversation"),
        ("hello", "message 1: expected"),
        ([{"role": "robot", "content": "a"}], r"message 1: expected a 'role' \(system, user"),
        ([*ADA, {"role": "user"}], "message 2: expected"),
        ([*ADA, "hello"], "message 2: expected"),
    ],
)
def test_what_is_no_conversation(run, messages, why):
    with pytest.raises(DataError, match=why):
        run.chat(messages)


def test_a_run_without_a_template(run, template):
    template.unlink()
    with pytest.raises(ConfigError, match=r"talker has no chat_template.jinja, .*regard generate"):
        run.chat(ADA)


def test_a_template_that_is_no_text(run, template):
    template.write_bytes(b"\xff")
    with pytest.raises(CheckpointError, match="is damaged: it is not UTF-8"):
        run.chat(ADA)


@pytest.mark.parametrize(
    "said",
    [CHATML, [{"name": "tools", "template": "x"}, {"name": "default", "template": CHATML}]],
    ids=["one", "several"],
)
def test_a_template_among_the_tokenizers_settings_is_kept(tmp_path, said):
    from regard.interop.importing import import_model

    chat_folder(tmp_path, template=None)
    assert not (tmp_path / "talker" / "chat_template.jinja").exists()
    config = {"chat_template": said, "eos_token": "<e>"}
    (tmp_path / "theirs" / "tokenizer_config.json").write_text(json.dumps(config))
    import_model(tmp_path / "theirs", tmp_path / "again")
    assert (tmp_path / "again" / "chat_template.jinja").read_text() == CHATML


def test_only_the_beginning_can_be_cut_off(run):
    with pytest.raises(ConfigError, match="truncate='lift' .did you mean 'left'.*'left' or None"):
        run.chat(ADA, truncate="lift")
    with pytest.raises(ConfigError, match="truncate='right'"):
        run.generate("i am ada", truncate="right")
