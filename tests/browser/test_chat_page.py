"""The box to talk in, on the page of a run that chats."""

import numpy as np
import pytest
from chats import chat_folder
from page_parts import served

from regard.server.app import make_app
from regard.tasks.opening import load

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return chat_folder(tmp_path_factory.mktemp("chat"), max_len=400)


@pytest.fixture(scope="module")
def talker(folder):
    return load(folder, device="cpu")


@pytest.fixture
def page(visit, folder):
    with served(make_app(load(folder, device="cpu"))) as address:
        page = visit(at=address, wait="#chat-words")
        page.get_by_label("Temperature").first.fill("0")
        page.get_by_label("Temperature").first.press("Tab")
        yield page


def say(page, words):
    page.locator("#chat-words").fill(words)
    page.locator("#chat-words").press("Enter")


def last_answer(page, n=1):
    """The n-th answer, when it is whole."""
    page.locator(".turns[aria-busy=false] li.assistant").nth(n - 1).wait_for()
    return page.locator("li.assistant .bubble").nth(n - 1)


def text_of(answer):
    """What its tokens say; parts of characters are dots."""
    return "".join(answer.locator("button").all_text_contents()).replace("·", "")


def test_a_conversation_goes_on_from_turn_to_turn(page, talker):
    talk = talker.conversation(max_new=200, temperature=0, truncate="left")
    say(page, "a tea")
    first = last_answer(page)
    assert page.locator("li.user .bubble").inner_text() == "a tea"
    assert page.locator("#chat-words").input_value() == ""
    assert text_of(first) == talk.say("a tea")
    assert page.evaluate("document.activeElement.id") == "chat-words"
    say(page, "more")
    assert text_of(last_answer(page, 2)) == talk.say("more")
    assert page.locator(".turns li").count() == 4
    page.get_by_role("button", name="Clear").click()
    assert page.locator(".turns li").count() == 0


def test_a_token_shows_where_the_model_looked_when_it_wrote_it(page, talker):
    say(page, "a tea")
    answer = last_answer(page)
    answer.locator("button").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    page.locator(".look .shaded span").first.wait_for()
    assert answer.locator("[aria-pressed=true]").count() == 1
    messages = [{"role": "user", "content": "a tea"}]
    read = talker.conversation(messages).prompts.ids(messages)
    shown = page.eval_on_selector_all(".shaded span", "all => all.map(one => +one.dataset.weight)")
    assert len(shown) == len(read) + 1
    talk = talker.conversation(messages, max_new=2, temperature=0)
    ids = list(talker.generator.coming(read, talk.config, rng=talk.rng))
    weights = talker.look_at_ids(read, ids).weights(
        "decoder.self", -1 % talker.model.config.n_layers
    )
    np.testing.assert_allclose(shown, weights.mean(axis=0)[len(read), : len(shown)], atol=1e-5)
    page.locator('.look [data-control="Head"]').select_option("1")
    page.wait_for_function(
        "n => document.querySelectorAll('.shaded span').length === n", arg=len(shown)
    )
    one = page.eval_on_selector_all(".shaded span", "all => all.map(one => +one.dataset.weight)")
    np.testing.assert_allclose(one, weights[1, len(read), : len(shown)], atol=1e-5)
    assert page.locator(".look .bars li").count() >= 2


def test_an_answer_is_stopped_and_what_came_so_far_stays(page):
    page.route("**/api/chat", lambda route: None)  # an answer that never comes
    say(page, "a tea")
    page.get_by_role("button", name="Stop").wait_for()
    page.locator("#chat-words").press("Escape")
    page.get_by_text("it was stopped here").wait_for()
    assert page.get_by_role("button", name="Send").is_visible()
    page.unroute("**/api/chat")


def test_a_turn_that_is_refused_can_be_typed_again(page):
    say(page, "a" * 500)
    page.locator(".chat .trouble", has_text="the last turn alone has").wait_for()
    assert page.locator(".turns li").count() == 0
    assert page.locator("#chat-words").input_value() == "a" * 500


def test_other_runs_have_no_such_box(visit):
    page = visit()
    assert page.locator("#chat").is_hidden()
