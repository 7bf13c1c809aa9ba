"""The section ``model`` of a recipe is told apart by the preset's family."""

from typing import Literal

import pytest
import torch
from pydantic import Field

from regard.core.errors import ConfigError
from regard.core.settings import parse
from regard.functional.scores import SCORES
from regard.models.presets import (
    FAMILIES,
    PRESETS,
    Family,
    ModelSettings,
    Preset,
    build,
    config_from,
    presets_for,
    resolve_for,
)
from regard.models.settings import DecoderConfig, EncoderConfig, ModelConfig, SequenceConfig

N_VOCAB = {"n_vocab": 9}


class CountingConfig(ModelConfig):
    family: Literal["counting"] = "counting"
    n_vocab: int
    depth: int = Field(3, ge=1, description="How far it counts.")


@pytest.fixture
def counting(monkeypatch):
    """A family that somebody else entered."""
    for registry, thing in (
        (FAMILIES, Family(CountingConfig, lambda config: torch.nn.Linear(config.depth, 1))),
        (PRESETS, Preset("counting", "It counts", {"only": {"depth": 5}})),
    ):
        monkeypatch.setitem(registry._things, "counting", thing)


def section(**given):
    return parse(ModelSettings, given, "model")


def test_every_problem_of_a_section_is_told_at_once():
    with pytest.raises(ConfigError) as told:
        section(preset="gpt", size="huge", fusion="deep", n_heads=0)
    for part in (
        "model.size='huge': preset 'gpt' has no size 'huge'; it has tiny, small, base",
        "model.fusion='deep': preset 'gpt' has no setting 'fusion'; it has preset, size, score",
        "model.n_heads=0: input should be greater than or equal to 1",
    ):
        assert part in str(told.value)


def test_a_setting_that_is_null_is_not_given():
    """Recipes of 0.1.0 wrote out what was not asked for, of every family."""
    given = section(preset="gpt", fusion=None, n_heads=None, d_ff=64)
    assert given.given() == {"d_ff": 64}
    assert given.model_dump() == {
        "preset": "gpt",
        "size": None,
        "fusion": None,
        "n_heads": None,
    } | {"d_ff": 64}


def test_what_the_data_decides_is_no_setting():
    for name in ("n_vocab", "pad_id", "family", "head", "n_labels"):
        with pytest.raises(ConfigError, match=f"no setting '{name}'"):
            section(preset="bert", **{name: 3})


def test_presets_are_found_by_the_configuration_of_their_family():
    assert presets_for(DecoderConfig) == ["gpt"]
    assert presets_for(EncoderConfig) == ["bert", "bilstm"]
    assert "cheng2016" in presets_for(SequenceConfig)
    with pytest.raises(ConfigError, match="cannot be trained for language; .* one of gpt"):
        resolve_for("language", DecoderConfig, section(preset="bert"), **N_VOCAB)


def test_a_family_of_others_has_its_own_settings(counting):
    config = resolve_for("counting", CountingConfig, section(preset="counting"), **N_VOCAB)
    assert config.depth == 5
    assert build(config).in_features == 5
    assert config_from(config.model_dump()) == config
    assert section(preset="counting", depth="7").given() == {"depth": "7"}
    with pytest.raises(ConfigError, match="it has preset, size, d_model, max_len, depth"):
        section(preset="counting", n_heads=3)
    assert "depth" in ModelSettings.names()


def test_a_score_of_others_is_known_as_soon_as_it_is_entered(monkeypatch):
    asked = section(preset="gpt", score="mine")
    with pytest.raises(ConfigError, match="unknown score 'mine'"):
        resolve_for("language", DecoderConfig, asked, **N_VOCAB)
    monkeypatch.setitem(SCORES._things, "mine", SCORES["dot"])
    config = resolve_for("language", DecoderConfig, asked, **N_VOCAB)
    torch.manual_seed(0)
    model = build(config)
    assert model.layers[0].self_attention.score.name == "mine"
    assert model(torch.tensor([[1, 2, 3]])).isfinite().all()


def test_the_schema_is_one_of_the_families_with_their_names():
    families = {one["title"]: one for one in ModelSettings.model_json_schema()["oneOf"]}
    assert families.keys() == FAMILIES.keys()
    decoder = families["decoder"]
    assert decoder["properties"]["preset"]["enum"] == ["gpt"]
    assert decoder["required"] == ["preset"]
    assert families["transformer"]["required"] == []
    assert decoder["properties"]["score"]["examples"] == list(SCORES)
    assert not decoder["additionalProperties"]
