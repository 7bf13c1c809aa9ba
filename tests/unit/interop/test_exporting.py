"""Which models a format takes is one table; all others are refused before anything is written."""

from types import SimpleNamespace

import pytest

from regard.core.errors import ConfigError
from regard.interop.exporting import FORMATS, export
from regard.models.captioner import CaptionerConfig
from regard.models.presets import FAMILIES

FAMILIES_OF = {
    "hf": {"encoder", "decoder", "transformer", "vision", "detection"},
    "ctranslate2": {"transformer"},
    "onnx": {"encoder", "decoder", "transformer", "vision"},
    "web": {"transformer", "encoder", "decoder"},
}
OTHERS = [(to, family) for to, known in FAMILIES_OF.items() for family in {*FAMILIES} - known]
CAPTIONER = CaptionerConfig.model_fields["family"].default


def of_family(family):
    """As much of a run as says what its model is."""
    return SimpleNamespace(model=SimpleNamespace(config=SimpleNamespace(family=family)))


def test_formats_say_which_families_they_take():
    assert {to: {*FORMATS[to]} for to in FORMATS} == FAMILIES_OF


@pytest.mark.parametrize(("to", "family"), [*sorted(OTHERS), ("hf", CAPTIONER)])
def test_a_model_of_another_family_is_refused_in_one_line(tmp_path, to, family):
    with pytest.raises(ConfigError) as told:
        export(of_family(family), to, tmp_path / "out")
    assert str(told.value) == (
        f"this model cannot be exported: {to} takes models of the family "
        f"{' or '.join(FORMATS[to])}, and this is one of the family {family!r}"
    )
    assert not (tmp_path / "out").exists()
