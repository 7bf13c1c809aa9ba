"""Build the wheel, install it where nothing else is, and run the demo from there; ``make wheel``.

The new environment sees the packages that the wheel asks for, taken from the environment that runs
this, and no others: neither the sources nor anything that only tests need. So it takes seconds, and
a dependency that nobody declared is missed here too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import venv
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
PACKAGE = "regard"
BUILT = (ROOT / "build", ROOT / "src" / f"{PACKAGE}.egg-info")
"""What building leaves, and what the next building would take up."""
SHORT = ("--set", "max_steps=50")
SERVED = """
import re
import urllib.request
import regard

print(regard.__file__)
run = regard.load("runs/demo")
assert "<iframe" in run.explain("john loves mary")._repr_html_()
with run.serve(port=0, background=True) as server:
    page = urllib.request.urlopen(server.url, timeout=60).read().decode()
    parts = re.findall(r'(?:src|href)="(/?[\\w./-]+)"', page)
    assert parts, page
    for part in parts:
        urllib.request.urlopen(f"{server.url}/{part.lstrip('/')}", timeout=60).read()
"""
"""Opens the run, draws it and serves its page: what needs the scripts and styles of the wheel."""


def built(into: Path) -> Path:
    """The wheel, of the sources as they are."""
    for left in BUILT:
        shutil.rmtree(left, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "-w", into, ROOT], check=True)
    (wheel,) = into.glob("*.whl")
    return wheel


def check_files(wheel: Path) -> int:
    """Refuse a wheel that lacks a file of the sources or has one more; -> how many there are."""
    sources = ROOT / "src"
    wanted = {
        str(path.relative_to(sources))
        for path in (sources / PACKAGE).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    found = {one for one in zipfile.ZipFile(wheel).namelist() if one.startswith(f"{PACKAGE}/")}
    if wanted != found:
        raise SystemExit(
            f"the wheel lacks {sorted(wanted - found)} and has {sorted(found - wanted)} beyond the "
            "sources: see package-data in pyproject.toml"
        )
    return len(found)


def needed(name: str, extras: frozenset[str] = frozenset()) -> Iterator[tuple[str, frozenset[str]]]:
    """A package and the extras that are asked of it, for each that ``name`` asks for."""
    for line in distribution(name).requires or ():
        wanted = Requirement(line)
        if wanted.marker is None or any(
            wanted.marker.evaluate({"extra": extra}) for extra in extras or {""}
        ):
            yield wanted.name, frozenset(wanted.extras)


def closure(name: str) -> dict[str, Distribution]:
    """All that a package needs, directly or not, itself left out."""
    found: dict[str, Distribution] = {}
    seen = set()
    ahead = [(name, frozenset[str]())]
    while ahead:
        one = ahead.pop()
        if one in seen:
            continue
        seen.add(one)
        found[one[0]] = distribution(one[0])
        ahead += needed(*one)
    del found[name]
    return found


def link(packages: dict[str, Distribution], into: Path) -> None:
    """Let the packages be found in a folder of site-packages."""
    for package in packages.values():
        tops = {file.parts[0] for file in package.files or () if file.parts[0] != ".."}
        for top in tops - {"__pycache__"}:
            if not (into / top).exists():
                (into / top).symlink_to(package.locate_file(top))


def main() -> None:
    """Build, install, run."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = built(folder)
        n_files = check_files(wheel)
        place = folder / "env"
        venv.create(place, symlinks=True)
        python = place / "bin" / "python"
        (site,) = place.glob("lib/python*/site-packages")
        clean = {key: one for key, one in os.environ.items() if key != "PYTHONPATH"}
        how = {"cwd": folder, "check": True, "env": clean}
        pip = [sys.executable, "-m", "pip", "--python", python, "install", "-q"]
        subprocess.run([*pip, "--no-deps", "--no-index", wheel], **how)
        packages = closure(PACKAGE)
        link(packages, site)
        demo = [place / "bin" / PACKAGE, "demo", "--no-serve", *SHORT]
        subprocess.run(demo, **how)
        told = subprocess.run([python, "-c", SERVED], **how, stdout=subprocess.PIPE, text=True)
        if Path(told.stdout.strip()).is_relative_to(ROOT) or str(site) not in told.stdout:
            raise SystemExit(f"the demo ran {told.stdout.strip()}, not what the wheel brought")
        print(f"{wheel.name}: {n_files} files, {len(packages)} packages beside it; its demo works")


if __name__ == "__main__":
    main()
