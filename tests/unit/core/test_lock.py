import subprocess
import sys

from regard.core.lock import claimed, one_at_a_time

HOLDING = """
import sys
from pathlib import Path
from regard.core.lock import claimed
with claimed(Path(sys.argv[1])) as ours:
    print(ours, flush=True)
    sys.stdin.read()
"""


def test_a_claim_is_one_process_s_until_it_is_killed(tmp_path):
    path = tmp_path / "part.claim"
    owner = subprocess.Popen(
        [sys.executable, "-c", HOLDING, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert owner.stdout.readline() == b"True\n"
    with claimed(path) as ours:
        assert not ours
    assert path.read_text().endswith(f", process {owner.pid}\n")
    owner.kill()
    owner.communicate()
    with claimed(path) as ours:
        assert ours
        with claimed(path) as again:
            assert not again
    with claimed(tmp_path / "gone" / "part.claim") as ours:
        assert not ours


COUNTING = """
import sys, time
from pathlib import Path
from regard.core.lock import one_at_a_time
number = Path(sys.argv[1])
for _ in range(20):
    with one_at_a_time(number.parent):
        before = int(number.read_text())
        time.sleep(0.001)
        number.write_text(str(before + 1))
"""


def test_one_is_inside_at_a_time(tmp_path):
    number = tmp_path / "number"
    number.write_text("0")
    both = [subprocess.Popen([sys.executable, "-c", COUNTING, number]) for _ in range(2)]
    assert [one.wait() for one in both] == [0, 0]
    assert number.read_text() == "40"
    with one_at_a_time(number.parent):
        pass
