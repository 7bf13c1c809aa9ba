import json

from regard.training.metrics import MetricsLog, read_metrics


def test_a_line_a_report_with_tensorboard_beside_it(tmp_path):
    log = MetricsLog(tmp_path / "metrics.jsonl", first_step=0)
    log({"step": 5, "kind": "train", "loss": 2.0})
    log.close()
    assert read_metrics(tmp_path / "metrics.jsonl") == [{"step": 5, "kind": "train", "loss": 2.0}]
    assert list((tmp_path / "tensorboard").glob("events*"))


def test_resuming_drops_lines_of_steps_that_will_come_again(tmp_path):
    path = tmp_path / "metrics.jsonl"
    lines = [json.dumps({"step": step, "kind": "train"}) for step in (1, 2, 3)]
    path.write_text("\n".join(lines) + '\n{"step": 4, "ki')  # killed while writing
    MetricsLog(path, first_step=2).close()
    assert [line["step"] for line in read_metrics(path)] == [1, 2]
