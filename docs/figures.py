"""Figures of the site: what the lab measured, and what the demo run and the systems look like.

``make figures`` trains the demo run, runs the whole lab (some minutes) and writes docs/figures.
``python docs/figures.py --run RUN`` takes a run that is there; names of claims after it run these
alone, and leave all other figures as they are.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from regard import lab
from regard.visual.svg import alone
from regard.visual.theme import ink_and_paper

FOLDER = Path(__file__).parent / "figures"
RESULTS = FOLDER / "lab"
TIRED = "the animal did not cross the street because it was too tired"
LOOKS = {
    "it.svg": ["explain", "RUN", TIRED, "--attention", "encoder.self"],
    "alignment.svg": ["explain", "RUN", "jane visits africa in september"],
    "causal.svg": ["explain", "RUN", "john loves mary", "--attention", "decoder.self"],
    "heads.svg": ["heads", "RUN", "--sentences", "50"],
    "transformer.svg": ["draw", "transformer"],
    "bahdanau2015.svg": ["draw", "bahdanau2015"],
    "captions.svg": ["draw", "captions"],
    "counting.svg": ["draw", "counting"],
}
"""Figure → the command that writes it; RUN is the demo's run."""


def main() -> None:
    """Read the words of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--run", type=Path, help="a run of the demo; else it is trained")
    parser.add_argument("claim", nargs="*", help="claims of the lab; else all, and all figures")
    words = parser.parse_args()
    RESULTS.mkdir(parents=True, exist_ok=True)
    if not words.claim:
        draw_looks(words.run)
    for name in words.claim or lab.NAMES:
        measure(name)


def draw_looks(run: Path | None) -> None:
    """Write the figures that commands make."""
    with tempfile.TemporaryDirectory() as folder:
        if run is None:
            run = Path(folder) / "demo"
            _regard("demo", "--no-serve", "--out", str(run))
        for name, command in LOOKS.items():
            given = [str(run) if word == "RUN" else word for word in command]
            _regard(*given, "--out", str(FOLDER / name))
            _follow_reader(FOLDER / name)


def _regard(*words: str) -> None:
    subprocess.run([sys.executable, "-m", "regard", *words], check=True)


def _follow_reader(path: Path) -> None:
    """Files for slides are light; on the site a figure is dark for who reads in the dark."""
    svg = path.read_text(encoding="utf-8")
    path.write_text(svg.replace(ink_and_paper(fixed=True), ink_and_paper()), encoding="utf-8")


def measure(name: str) -> None:
    """Run an experiment of the lab -> NAME.json, NAME.svg, NAME-2.svg, …"""
    result = lab.experiment(name)()
    facts = json.dumps(result.as_json(), indent=2, ensure_ascii=False)
    (RESULTS / f"{name}.json").write_text(facts + "\n", encoding="utf-8")
    write_pictures(name, result.pictures)
    print(f"{name}: {'holds' if result.verdict else 'does not hold'}", flush=True)


def write_pictures(name: str, pictures: Sequence[str]) -> None:
    """The pictures of a result, in place of those of before."""
    for earlier in [*RESULTS.glob(f"{name}.svg"), *RESULTS.glob(f"{name}-?.svg")]:
        earlier.unlink()
    for number, picture in enumerate(pictures, start=1):
        suffix = "" if number == 1 else f"-{number}"
        (RESULTS / f"{name}{suffix}.svg").write_text(alone(picture), encoding="utf-8")


if __name__ == "__main__":
    main()
