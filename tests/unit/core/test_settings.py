import math
from typing import Annotated

import pytest
from pydantic import BaseModel, ConfigDict, Field, model_validator

from regard.core.errors import ConfigError
from regard.core.settings import parse


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")
    n_heads: int = Field(4, ge=1)
    dropout: float = Field(0.0, lt=1.0)


class Outer(BaseModel):
    model_config = ConfigDict(extra="forbid")
    model: Inner
    other: Inner | None = None

    @model_validator(mode="after")
    def _fits(self):
        if self.model.n_heads == 7:
            raise ValueError("seven heads do not fit")
        return self


def test_good_settings_come_through():
    assert parse(Outer, {"model": {"n_heads": 2}}, "").model.n_heads == 2


def test_all_problems_are_told_at_once():
    raw = {"model": {"n_head": 2, "n_heads": 0, "dropout": 1.5}, "modle": {}}
    with pytest.raises(ConfigError) as caught:
        parse(Outer, raw, "")
    message = str(caught.value)
    assert "unknown setting 'model.n_head' (did you mean 'n_heads'?)" in message
    assert "model.n_heads=0: input should be greater than or equal to 1" in message
    assert "model.dropout=1.5" in message
    assert "unknown setting 'modle' (did you mean 'model'?)" in message
    assert "known:" not in message  # the guess is enough
    assert message.index("unknown") == 0  # the rest may follow from it


@pytest.mark.parametrize("value", ["inf", float("-inf"), "nan"])
def test_numbers_are_finite(value):
    with pytest.raises(
        ConfigError, match=r"^model\.share: expected a finite number; model\.some\.1: "
    ):
        parse(Shares, {"share": value, "some": [1, value]}, "model")


def test_a_default_may_be_infinite():
    found = parse(Shares, {"share": 0.5, "some": []}, "model")
    assert found.far == math.inf
    assert parse(Shares, found.model_dump(), "model") == found  # as a run that was kept is read


class Shares(BaseModel):
    share: float
    some: list[float]
    far: float = math.inf


@pytest.mark.parametrize(
    ("some", "told"),
    [
        ([3, 0], "model.some.1=0: input should be greater than or equal to 1"),
        ([0], "model.some.0=0: input should be greater than or equal to 1"),
        (3, "model.some=3: expected a list, such as [3]"),
        ("x", "model.some='x': expected a list, such as ['x']"),
        ([], "model.some=[]: list should have at least 1 item"),
    ],
)
def test_what_is_wrong_with_a_list_is_told_once_and_in_words_of_yaml(some, told):
    with pytest.raises(ConfigError) as caught:
        parse(Listed, {"some": some}, "model")
    assert str(caught.value) == told


class Listed(BaseModel):
    some: tuple[Annotated[int, Field(ge=1)], ...] = Field(min_length=1)


class Whole(BaseModel):
    model_config = ConfigDict(extra="forbid")
    inner: Inner
    size: int
    code: str = Field("en-fr", pattern="^[a-z]+-[a-z]+$", description="Two codes with a hyphen.")
    free: str = Field(pattern="^x")


def test_what_is_missing_is_said_in_plain_words():
    with pytest.raises(ConfigError) as caught:
        parse(Whole, {"free": "x"}, "", whole="recipe a.yaml")
    assert str(caught.value) == (
        "recipe a.yaml has no section inner; add it, with settings such as n_heads, dropout; "
        "size is missing"
    )
    with pytest.raises(ConfigError, match=r"^edit\.size is missing$"):
        parse(Whole, {"inner": {}, "free": "x"}, "edit")


def test_a_section_that_holds_no_settings():
    with pytest.raises(ConfigError, match="^section inner must hold settings, .* but found None$"):
        parse(Whole, {"inner": None, "size": 1, "free": "x"}, "")


def test_a_text_of_another_form_is_told_in_the_words_of_its_description():
    with pytest.raises(ConfigError) as caught:
        parse(Whole, {"inner": {}, "size": 1, "code": "english", "free": "y"}, "data")
    assert str(caught.value) == (
        "data.code='english': two codes with a hyphen; write it as en-fr; "
        "data.free='y': another text is expected"
    )


def test_the_prefix_says_where():
    with pytest.raises(ConfigError, match=r"^model\.n_heads='many'"):
        parse(Inner, {"n_heads": "many"}, "model")


def test_a_nested_optional_section_knows_its_names():
    with pytest.raises(ConfigError, match=r"'other\.dropuot' \(did you mean 'dropout'\?\)"):
        parse(Outer, {"model": {}, "other": {"dropuot": 0.1}}, "")


def test_what_a_validator_says_is_passed_on():
    with pytest.raises(ConfigError, match="^seven heads do not fit$"):
        parse(Outer, {"model": {"n_heads": 7}}, "")
