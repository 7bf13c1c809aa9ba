import json

import pytest

from regard.core.errors import CheckpointError
from regard.training.metrics import MetricsLog, read_metrics


def test_a_line_a_report(tmp_path):
    log = MetricsLog(tmp_path / "metrics.jsonl", first_step=0)
    log({"step": 5, "kind": "train", "loss": 2.0})
    assert read_metrics(tmp_path / "metrics.jsonl") == [{"step": 5, "kind": "train", "loss": 2.0}]


def test_a_full_disk_is_told_in_one_line(tmp_path):
    log = MetricsLog(tmp_path / "metrics.jsonl", first_step=0)
    (tmp_path / "metrics.jsonl").unlink()
    (tmp_path / "metrics.jsonl").symlink_to("/dev/full")
    with pytest.raises(CheckpointError, match="cannot write.*No space left.*still there"):
        log({"step": 5, "kind": "train", "loss": 2.5})


def test_resuming_drops_lines_of_steps_that_will_come_again(tmp_path):
    path = tmp_path / "metrics.jsonl"
    lines = [json.dumps({"step": step, "kind": "train"}) for step in (1, 2, 3)]
    path.write_text("\n".join(lines) + '\n{"step": 4, "ki')  # killed while writing
    MetricsLog(path, first_step=2)
    assert [line["step"] for line in read_metrics(path)] == [1, 2]
