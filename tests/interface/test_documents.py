"""Pages for contributors name files that are there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATH = re.compile(r"`((?:src/regard/|tests/|docs/|examples/)?[a-z_0-9]+(?:/[a-z_0-9.]+)+)`")


@pytest.mark.parametrize("page", ["docs/ARCHITECTURE.md", "CONTRIBUTING.md"])
def test_every_file_that_is_named_exists(page):
    named = set(PATH.findall((ROOT / page).read_text()))
    assert len(named) > 10
    missing = [
        one for one in named if not ((ROOT / one).exists() or (ROOT / "src/regard" / one).exists())
    ]
    assert not missing


def test_a_sentence_passes_thirty_files_at_most():
    text = (ROOT / "docs/ARCHITECTURE.md").read_text()
    path = text.split("## From file to loss")[1].split("## From stdin")[0].split("| stage")[1]
    assert len(set(PATH.findall(path))) <= 30
