"""Screenshots in docs/ are those that docs/pictures.py makes, and no others."""

import importlib.util
import struct
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST_BYTES = 2_000_000


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("pictures", ROOT / "docs/pictures.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_folder_holds_every_picture_of_the_script_and_nothing_else(script):
    found = {one.name for one in (ROOT / "docs/pictures").iterdir()}
    assert found == {*script.PICTURES}
    assert len(found) == len(script.SCENES) * len(script.SIZES) * len(script.SCHEMES)


def test_every_picture_has_the_size_in_its_name_and_together_they_are_small(script):
    total = 0
    for path in (ROOT / "docs/pictures").iterdir():
        png = path.read_bytes()
        assert struct.unpack(">II", png[16:24]) == script.SIZES[path.stem.split("-")[1]]
        total += len(png)
    assert total < MOST_BYTES


def test_make_pictures_runs_the_script():
    assert "docs/pictures.py" in (ROOT / "Makefile").read_text().partition("\npictures:")[2]
