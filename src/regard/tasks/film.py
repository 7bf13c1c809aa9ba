"""The film of a training as it lies in a run's folder: ``film.jsonl``, a line a frame.

Each frame has its ``step``, what the model ``said``, and the ``look``: the payload of a look at one
held-out example, with weights in steps of 1/255. ``regard.runs.film`` takes the frames.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from regard.core.files import parse_json
from regard.visual.look_files import look_svg
from regard.visual.payload import Selected, unpacked
from regard.visual.report import Looked

READABLE = 2**26
"""Bytes of a film that is read; a larger one was not written here."""
SHOWN = 4
"""Frames in a report."""


def read_film(path: Path) -> list[dict[str, Any]]:
    """All frames by their steps; none where there is no film.

    The file may come from anybody: what is no frame is left out, and so is a link.
    """
    if path.is_symlink() or not path.is_file() or path.stat().st_size > READABLE:
        return []
    frames: dict[int, dict[str, Any]] = {}
    for line in path.read_bytes().split(b"\n"):
        try:
            frame = parse_json(line.decode("utf-8"))
        except ValueError:
            continue
        if isinstance(frame, dict) and _is_frame(frame):
            frames[frame["step"]] = frame
    return [frames[step] for step in sorted(frames)]


def _is_frame(frame: Mapping[str, Any]) -> bool:
    look = frame.get("look")
    return (
        type(frame.get("step")) is int
        and isinstance(frame.get("said"), str)
        and isinstance(look, dict)
        and isinstance(look.get("attentions"), dict)
    )


def film_strip(path: Path) -> list[Looked]:
    """Some frames of a film, evenly apart, as pictures; none where the run does not attend."""
    frames = [frame for frame in read_film(path) if frame["look"]["attentions"]]
    n = min(SHOWN, len(frames))
    chosen = [frames[round(i * (len(frames) - 1) / max(1, n - 1))] for i in range(n)]
    return [one for one in map(_shown, chosen) if one is not None]


def _shown(frame: Mapping[str, Any]) -> Looked | None:
    """A frame as a picture; None where its numbers are no weights."""
    try:
        return _picture(frame)
    except (ValueError, KeyError, TypeError, IndexError):
        return None


def _picture(frame: Mapping[str, Any]) -> Looked:
    weights = frame["look"]["attentions"]
    arrays = {name: [unpacked(one) for one in layers] for name, layers in weights.items()}
    when = "Before the first step" if frame["step"] == 0 else f"At step {frame['step']:,}"
    caption = f"{when} of the training: {frame['look']['source']} → {frame['said']}"
    return Looked(caption, look_svg({**frame["look"], "attentions": arrays}, Selected()))
