import pytest

from regard.core.errors import ConfigError
from regard.core.registry import Registry, did_you_mean


def test_a_registry_reads_like_a_dictionary():
    registry = Registry("fruit")
    registry.add("apple")(1)
    registry.add("pear")(2)
    assert dict(registry) == {"apple": 1, "pear": 2}
    assert "apple" in registry
    assert "plum" not in registry
    assert len(registry) == 2


def test_an_unknown_name_is_answered_with_the_nearest():
    registry = Registry("fruit")
    registry.add("apple")(1)
    with pytest.raises(ConfigError, match=r"unknown fruit 'aple' \(did you mean 'apple'\?\)"):
        registry["aple"]


def test_nothing_is_suggested_when_nothing_is_near():
    assert did_you_mean("zebra", ["apple"]) == ""
