"""Python that has the libraries in memory already: a server that forks, and programs that ask it.

To load torch takes longer than most samples. What is forked has loaded nothing of Regard, so that
each program imports it by the door that it came through.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

LOADED = ("fastapi", "numpy", "pydantic", "rich", "torch", "torch._dynamo", "typer", "uvicorn")
PROGRAM = f"""#!{sys.executable} -SI
import json, os, signal, socket, sys
line = socket.socket(socket.AF_UNIX)
line.connect({{path!r}})
asked = json.dumps([{{before!r}} + sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(line, [len(asked).to_bytes(8, "big")], [0, 1, 2])
line.sendall(asked)
child = int.from_bytes(line.recv(8), "big")
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(number, lambda number, _frame: os.kill(child, number))
told = line.recv(1)
sys.exit(told[0] if told else 1)
"""
"""Hands its words, folder, environment and streams to the server, and ends as what that began."""


@contextmanager
def warm_python(folder, **programs):
    """Inside the block ``folder`` has programs, each Python with words of its own before others."""
    path = str(folder / "socket")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen()
        words = [sys.executable, __file__, str(listening.fileno())]
        server = subprocess.Popen(words, pass_fds=[listening.fileno()])
    for name, before in programs.items():
        (folder / name).write_text(PROGRAM.format(path=path, before=before))
        (folder / name).chmod(0o755)
    try:
        yield
    finally:
        server.kill()
        server.wait()


def _serve(listening):
    for name in LOADED:
        __import__(name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for what was begun
    while True:
        line, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _become(line)
        line.close()


def _become(line):
    """Run what was asked for, and tell its exit code."""
    length, streams, *_ = socket.recv_fds(line, 8, 3)
    asked = b""
    while len(asked) < int.from_bytes(length, "big"):
        asked += line.recv(2**16)
    words, folder, environment = json.loads(asked)
    for here, there in enumerate(streams):
        os.dup2(there, here)
        os.close(there)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    line.sendall(os.getpid().to_bytes(8, "big"))
    line.sendall(bytes([_code_of(words)]))
    os._exit(0)


def _code_of(words):
    """Run a file with words as Python would, to its end."""
    import atexit
    import runpy
    import threading
    import traceback

    sys.argv, sys.path[0] = words, str(Path(words[0]).parent)
    code = 0
    try:
        runpy.run_path(words[0], run_name="__main__")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    threading._shutdown()
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    return code


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
