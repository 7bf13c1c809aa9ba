"""``regard serve``: one line with the address, one line for what is wrong, and a quiet end."""

import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import yaml

from regard.cli.main import main
from regard.cli.serve import run_server
from regard.core.errors import ConfigError
from regard.server.limits import address_of, listen, outside_address, read_key

KEY = "a-key-of-some-length"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_tells_its_address_answers_and_ends_quietly(run_path, number):
    words = [sys.executable, "-m", "regard", "serve", str(run_path), "--port", "0"]
    with subprocess.Popen(words, stdout=-1, stderr=-1, text=True) as program:
        try:
            line = program.stdout.readline()
            address = line.split(" at ")[1].split()[0]
            with urllib.request.urlopen(f"{address}/healthz", timeout=30) as answer:
                assert json.load(answer)["status"] == "ok"
        finally:
            program.send_signal(number)
            out, err = program.communicate(timeout=60)
    assert (program.returncode, out, err) == (0, "", "regard: stopped\n")


LONG = """
import time
import torch
from regard.tasks.translator import Run


def slow(self, texts, **options):
    print("at work", flush=True)
    end, x = time.monotonic() + 60, torch.zeros(300, 300)
    while time.monotonic() < end:
        x = x @ x
    return texts


Run.translate = slow
from regard.cli.main import main

raise SystemExit(main(["serve", *__import__("sys").argv[1:]]))
"""


def test_a_second_signal_ends_at_once_and_as_quietly(run_path):
    """What is open is told of at the first; nothing else is printed, and no traceback."""
    words = [sys.executable, "-c", LONG, str(run_path), "--port", "0"]
    with (
        subprocess.Popen(words, stdout=-1, stderr=-1, text=True) as program,
        ThreadPoolExecutor() as pool,
    ):
        try:
            address = program.stdout.readline().split(" at ")[1].split()[0]
            body = json.dumps({"q": "a", "source": "ab", "target": "ba"}).encode()
            kind = {"Content-Type": "application/json"}
            request = urllib.request.Request(f"{address}/translate", body, kind)
            answer = pool.submit(urllib.request.urlopen, request, timeout=60)
            assert program.stdout.readline() == "at work\n"
            program.send_signal(signal.SIGINT)
            assert program.stderr.readline() == "regard: stopping; Ctrl-C again ends at once\n"
            program.send_signal(signal.SIGINT)
        finally:
            _, err = program.communicate(timeout=60)
        error = answer.exception()
        assert isinstance(error, urllib.error.HTTPError)
        assert error.status == 503
        error.close()
    assert (program.returncode, err) == (0, "regard: stopped\n")


def refusal(capsys, *words):
    assert main([str(word) for word in words]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    return err


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "example.org", "::", ""])
def test_other_machines_are_let_in_only_with_a_key(capsys, tmp_path, host):
    """There is no run, so that a server which lets everybody in ends here as well."""
    words = ["serve", tmp_path / "none", "--port", 0, "--host", host]
    assert "--api-key" in refusal(capsys, *words)
    assert "--api-key" not in refusal(capsys, *words, "--api-key", KEY)


@pytest.mark.parametrize("key", ["", "two words of it", "une clé secrète", "x" * 101, "x" * 9])
def test_a_key_that_no_client_can_send_or_anybody_guess_is_refused(capsys, tmp_path, key):
    words = ["serve", tmp_path / "none", "--port", 0]
    assert "must be 10 to 100 ASCII" in refusal(capsys, *words, "--api-key", key)
    (tmp_path / "key").write_text(key + "\n")
    told = refusal(capsys, *words, "--api-key-file", tmp_path / "key")
    assert "must be 10 to 100 ASCII" in told
    assert not key or key not in told


def test_the_key_may_stand_in_the_environment_or_in_a_file(capsys, tmp_path, monkeypatch):
    words = ["serve", tmp_path / "none", "--port", 0, "--host", "0.0.0.0"]
    monkeypatch.setenv("REGARD_API_KEY", KEY)
    assert "there is no run folder" in refusal(capsys, *words)
    (tmp_path / "key").write_bytes(b"\xef\xbb\xbf" + KEY.encode() + b"\r\n")
    in_file = [*words, "--api-key-file", tmp_path / "key"]
    assert "there are two keys" in refusal(capsys, *in_file)
    monkeypatch.delenv("REGARD_API_KEY")
    assert "there is no run folder" in refusal(capsys, *in_file)
    assert read_key(None, tmp_path / "key") == KEY
    assert "cannot read" in refusal(capsys, *words, "--api-key-file", tmp_path / "gone")
    (tmp_path / "key").write_bytes(b"\xff" * 20)
    assert "is not text" in refusal(capsys, *in_file)
    monkeypatch.setenv("REGARD_API_KEY", "short")
    assert "must be 10 to 100 ASCII" in refusal(capsys, *words)


def test_a_port_that_is_taken_is_told_before_anything_is_loaded(capsys, tmp_path):
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        for words in (["serve", tmp_path], ["demo", "--out", tmp_path / "demo"]):
            assert f"127.0.0.1:{port}: Address already in use; " in refusal(
                capsys, *words, "--port", port
            )
    assert not (tmp_path / "demo").exists()


def test_a_run_that_is_none_is_told_before_a_port_that_is_taken(capsys, tmp_path):
    with listen("127.0.0.1", 0) as taken:
        words = ["serve", tmp_path / "none", "--port", taken.getsockname()[1]]
        assert f"there is no run folder {tmp_path / 'none'}" in refusal(capsys, *words)


def test_a_host_that_is_none_and_a_run_that_is_none(capsys, tmp_path):
    words = ["serve", tmp_path, "--api-key", KEY, "--port", 0, "--host"]
    assert "cannot listen" in refusal(capsys, *words, "no.such.host.invalid")
    assert "cannot listen" in refusal(capsys, *words, "x" * 300)
    assert str(tmp_path) in refusal(capsys, *words, "127.0.0.1")


def test_the_demo_opens_a_page_that_becomes_the_run_s(monkeypatch, settings, tmp_path, capsys):
    small = {**settings, "train": {**settings["train"], "max_steps": 1}}
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(small))
    monkeypatch.setattr("regard.cli.demo.RECIPE", str(tmp_path / "small.yaml"))
    served = []

    def serve(run, listening, *, api_key, rate_limit, on_start, beside):
        served.append((run.folder.path, address_of(listening), api_key))
        on_start("http://127.0.0.1:1")

    monkeypatch.setattr("regard.server.serve.serve", serve)
    monkeypatch.setattr("regard.server.serve.open_page", served.append)
    assert main(["demo", "--out", str(tmp_path / "demo"), "--port", "0"]) == 0
    opened, (path, address, key) = served
    assert (path, address, key) == (tmp_path / "demo", opened, None)
    assert capsys.readouterr().out.endswith(" at http://127.0.0.1:1 (Ctrl-C ends)\n")


def test_a_browser_opens_only_where_there_is_a_screen(monkeypatch):
    from regard.server import serve

    opened = []
    monkeypatch.setattr(serve.webbrowser, "open", opened.append)
    monkeypatch.setattr(serve.sys, "platform", "linux")
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    serve.open_page("http://a")
    monkeypatch.setenv("DISPLAY", ":0")
    serve.open_page("http://b")
    assert opened == ["http://b"]


def test_ipv6_addresses_are_written_with_brackets():
    try:
        listening = listen("::1", 0)
    except ConfigError:
        pytest.skip("no IPv6 here")
    with listening:
        assert address_of(listening).startswith("http://[::1]:")


def test_a_server_for_others_knows_the_address_of_this_machine():
    with listen("0.0.0.0", 0) as listening:
        port = listening.getsockname()[1]
        found = outside_address(listening)
        assert found is None or re.fullmatch(rf"http://(?!0\.)[\d.]+:{port}", found)
    with listen("127.0.0.1", 0) as listening:
        assert outside_address(listening) is None


def test_the_address_for_other_machines_is_printed(monkeypatch, capsys):
    monkeypatch.setattr("regard.server.limits.outside_address", lambda _: "http://10.0.0.5:80")
    monkeypatch.setattr(
        "regard.server.serve.serve", lambda *_, on_start, **__: on_start("http://0.0.0.0:80")
    )
    run = SimpleNamespace(folder=SimpleNamespace(path="runs/mine"))
    run_server(run, None)
    assert capsys.readouterr().out == (
        "serving runs/mine at http://0.0.0.0:80 (Ctrl-C ends)\n"
        "from other machines: http://10.0.0.5:80\n"
    )
