"""Work that processes share: in order, with the errors of whoever did it, and from any script."""

import math
import os
import subprocess
import sys
from functools import partial

import pytest

from regard.core.errors import DataError
from regard.data.pictures import decode
from regard.data.workers import mapped


@pytest.mark.parametrize("at_once", [1, 7, 100])
def test_results_come_in_the_order_of_the_items(at_once):
    items = [float(x) for x in range(30)]
    assert [*mapped(math.sqrt, items, at_once=at_once)] == [math.sqrt(x) for x in items]
    assert [*mapped(math.sqrt, [], at_once=at_once)] == []


def test_what_is_wrong_with_an_item_is_told_as_it_would_be_here():
    with pytest.raises(DataError, match="^x: an empty file$"):
        [*mapped(partial(decode, where="x"), [b""], at_once=4)]


def test_what_is_printed_is_no_result(capfd):
    assert [*mapped(print, ["a word"], at_once=1)] == [None]
    assert capfd.readouterr() == ("", "a word\n")


def test_a_worker_that_is_lost_is_told():
    told = r"^a process that prepares data ended by itself \(exit status 3\); is there enough"
    with pytest.raises(DataError, match=told):
        [*mapped(os._exit, [3], at_once=1)]


def test_whoever_has_enough_may_leave():
    first = mapped(math.sqrt, [4.0] * 1000, at_once=1)
    assert next(first) == 2.0
    first.close()


SCRIPT = """
import sys
from regard.data import pictures
pictures.ALONE = 1
found = [pictures.PictureFile(__import__("pathlib").Path(name), name) for name in sys.argv[1:]]
print(pictures.all_pixels(found * 70, 4).shape)
"""


def test_a_script_needs_no_guard_and_is_run_once(tmp_path):
    from PIL import Image

    Image.new("RGB", (6, 4)).save(tmp_path / "a.png")
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "a.png")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "(70, 4, 4, 3)\n", "")
