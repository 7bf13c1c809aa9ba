"""Templates run in a sandbox, know what public ones expect, and say what is wrong."""

import re
from datetime import datetime
from types import MappingProxyType

import pytest

from regard.core.errors import CheckpointError, DataError
from regard.text import template_process
from regard.text.chat import ChatTemplate

HELLO = [{"role": "user", "content": "é <b>"}]


def rendered(source, messages=HELLO, **how):
    return ChatTemplate(source, {"bos_token": "<s>"}, where="here").render(messages, **how)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ bos_token }}{{ messages[0]['content'] }}", "<s>é <b>"),
        ("{{ messages[0] | tojson }}", '{"role": "user", "content": "é <b>"}'),
        ("{% if tools %}tools{% endif %}{{ eos_token }}", ""),
        ("{% for m in messages %}\n  {% if true %}\na\n  {% endif %}\n{% endfor %}", "a\n"),
        ("{% for i in range(9) %}{% if i > 2 %}{% break %}{% endif %}{{ i }}{% endfor %}", "012"),
        ("{% generation %}said{% endgeneration %}", "said"),
    ],
)
def test_what_public_templates_expect(source, text):
    assert rendered(source) == text


def test_a_file_of_the_folder_one_stands_in_is_not_run(tmp_path, monkeypatch):
    (tmp_path / "jinja2.py").write_text("raise SystemExit('run')")
    monkeypatch.chdir(tmp_path)
    fresh = template_process.Renderer()
    monkeypatch.setattr("regard.text.chat.RENDERER", fresh)
    found = rendered("{{ bos_token }}")
    fresh.end()
    assert found == "<s>"


def test_the_models_turn_is_asked_for_or_not():
    source = "{% if add_generation_prompt %}yes{% endif %}"
    assert (rendered(source), rendered(source, answer=False)) == ("yes", "")


def test_today_is_told():
    found = rendered("{{ strftime_now('%Y') }}")
    assert abs(int(found) - datetime.now().year) <= 1


def test_a_template_refuses_in_its_own_words():
    with pytest.raises(DataError, match="refuses this conversation: roles must alternate"):
        rendered("{{ raise_exception('roles must alternate') }}")


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("{% if %}", "here is not a template: Expected an expression"),
        ("{{ messages.append(1) }}", "here does not work: access to attribute 'append'"),
        ("{{ ''.__class__.__mro__ }}", "here does not work: access to attribute '__class__'"),
        ("{% include 'passwd' %}", "here does not work: no loader"),
        ("{{ messages + 1 }}", "here does not work"),
    ],
)
def test_what_a_template_may_not_do_is_told_in_a_line(source, why):
    with pytest.raises(CheckpointError, match=re.escape(why)) as caught:
        rendered(source)
    assert "\n" not in str(caught.value)


def test_messages_may_be_any_mapping():
    assert rendered("{{ messages[0] | tojson }}", [MappingProxyType({"role": "user"})]) == (
        '{"role": "user"}'
    )


@pytest.mark.parametrize(
    "source",
    [
        "{{ 'a' * 10**11 }}",
        "{% for m in messages %}{{ m['content'] * 10**10 }}{% endfor %}",
        "{{ '%999999999999d' | format(1) }}",
        "{{ 'x' | center(10**11) }}",
    ],
)
def test_a_template_never_takes_all_memory(source):
    with pytest.raises(CheckpointError, match="the file does not work"):
        ChatTemplate(source, {}, where="the file").render([{"role": "user", "content": "a"}])


def test_a_template_never_takes_all_time(monkeypatch):
    monkeypatch.setattr(template_process, "SECONDS", 0.3)
    loops = "{% for a in range(99999) %}" * 5 + "{% endfor %}" * 5
    with pytest.raises(CheckpointError, match="the file does not work: it takes too much"):
        ChatTemplate(loops, {}, where="the file").render([])


def test_after_a_template_that_failed_others_go_on():
    with pytest.raises(CheckpointError):
        rendered("{{ 'a' * 2**24 * 99 }}")
    assert ChatTemplate("{{ 1 + 1 }}", {}, where="the file").render([]) == "2"
