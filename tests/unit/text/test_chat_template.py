"""Templates run in a sandbox, know what public ones expect, and say what is wrong."""

import re
from datetime import datetime
from types import MappingProxyType

import pytest

from regard.core.errors import CheckpointError, DataError
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
        ("{% if %}", "here is no template: Expected an expression"),
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
