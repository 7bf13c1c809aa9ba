"""How training grows with processes: a model that says what it is, and measurements."""

import json

import pytest

from regard.bench.scale import Network, powers, projected_seconds
from regard.cli.main import main


def test_a_projection_is_compute_divided_and_a_ring_of_messages():
    network = Network(bandwidth=1e9, latency=1e-3)
    assert projected_seconds(8.0, 1, 4e9, network) == 8.0
    assert projected_seconds(8.0, 4, 4e9, network) == pytest.approx(2 + 6 / 4 * 4 + 6e-3)
    without = Network(bandwidth=float("inf"), latency=0.0)
    assert [projected_seconds(8.0, n, 4e9, without) for n in (2, 8)] == [4.0, 1.0]
    assert [*powers(9)] == [1, 2, 4, 8]


@pytest.mark.parametrize("flag", ["--workers", "--devices"])
def test_a_number_that_is_no_power_of_two_is_refused(flag, capsys):
    assert main(["bench", "scale", flag, "3"]) == 2
    assert f"{flag}=3 must be a power of two" in capsys.readouterr().err


@pytest.mark.slow
def test_processes_are_measured_and_parts_get_smaller(capsys):
    sizes = ("--size", "tiny", "--vocab", "64", "--batch-tokens", "64", "--rounds", "1")
    many = ("--workers", "2", "--devices", "2", "--bandwidth", "10")
    assert main(["bench", "scale", *sizes, *many, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    rows = {(row["how"], row["at"]): row for row in found["rows"]}
    assert {*rows} == {(how, n) for how in ("measured", "projected") for n in (1, 2)}
    assert all(row["value"] > 0 for row in rows.values())
    whole, half = (rows["projected", n]["memory_bytes"] for n in (1, 2))
    assert whole == pytest.approx(16 * found["parameters"], rel=0.01)
    assert half == pytest.approx(whole / 2, rel=0.05)
    assert found["cpu_seconds_to_one"]["1"] == 1.0
    assert found["bandwidth_bytes_per_second"] == 1e10
