"""``regard info``: what a run is."""

from __future__ import annotations

import json
from typing import Any

from regard.cli.options import Json, RunPath


def info(path: RunPath, as_json: Json = False) -> None:
    """Tell what a run is: its model, its task, its special ids, its scores and cost."""
    from regard.runs.loading import load

    facts = _facts(load(path, device="cpu"))
    if as_json:
        print(json.dumps(facts, ensure_ascii=False))
        return
    for name, value in facts.items():
        if name != "scores":
            print(f"{name}: {json.dumps(value, ensure_ascii=False)}")
    if facts["scores"]:
        from regard.cli.tables import show_scores

        show_scores(facts["scores"])


def _facts(run: Any) -> dict[str, Any]:
    from regard.checkpoints.run_folder import load_scores

    finished = load_scores(run.folder) if run.folder.finished() else {}
    return {
        **run.facts(),
        "training_flops": finished.get("measured", {}).get("flops"),
        "scores": finished.get("scores", {}),
    }
