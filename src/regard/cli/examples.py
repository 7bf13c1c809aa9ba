"""Examples at the end of each command's ``--help``, as one would type them."""

from __future__ import annotations

from collections.abc import Mapping

RUN = "runs/mine"
"""The run that examples speak of; those of pictures have another."""

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "demo": ("regard demo", "regard demo --no-serve --set max_steps=50"),
    "prepare": ("regard prepare mine.yaml --out shards --workers 8",),
    "train": (
        "regard train transformer --set max_steps=500",
        "regard train mine.yaml --out runs/mine",
        "regard train --resume --out runs/mine --set max_steps=20000",
        "regard train mine.yaml --dry-run",
    ),
    "average": ("regard average runs/mine --last 5",),
    "translate": (
        'regard translate runs/mine "john loves mary"',
        "regard translate runs/mine --beam 4 --json < lines.txt",
    ),
    "summarize": ("regard summarize runs/mine report.txt",),
    "generate": ('regard generate runs/mine "once upon a time" --temperature 0.8',),
    "classify": ('regard classify runs/mine "what a film" --json',),
    "answer": ("regard answer runs/mine --question 'who loves mary?' --text 'john loves mary'",),
    "embed": ('regard embed runs/mine "john loves mary"',),
    "fill": ('regard fill runs/mine "john <mask> mary" --n 3',),
    "neighbours": ("regard neighbours runs/mine dog --n 3",),
    "caption": ("regard caption runs/mine photo.png",),
    "ask": ('regard ask runs/mine photo.png --question "how many?"',),
    "detect": ("regard detect runs/mine photo.png --out boxes.png",),
    "chat": ('regard chat runs/mine --message "hello"',),
    "evaluate": (
        "regard evaluate runs/mine",
        "regard evaluate runs/mine --split valid --json",
        "regard evaluate runs/mine --source lines.en --reference lines.fr",
    ),
    "score": ("regard score runs/mine --source lines.en --target lines.fr",),
    "explain": (
        'regard explain runs/mine "john loves mary"',
        'regard explain runs/mine "john loves mary" --token aime --head 0',
        'regard explain runs/mine "john loves mary" --out look.html',
    ),
    "heads": ("regard heads runs/mine", "regard heads runs/mine --sentences 50 --out heads.svg"),
    "serve": ("regard serve runs/mine", "regard serve runs/mine --port 9000"),
    "compare": ("regard compare bahdanau2015 transformer --budget 1e12flops --seeds 3",),
    "sweep": (
        "regard sweep mine.yaml --set lr=1e-3,2e-3 --set dropout=0.1,0.3 --by valid.bleu",
        "regard sweep mine.yaml --set lr=1e-4..1e-2 --trials 8 --search halving --jobs 2",
    ),
    "table": ("regard table translation --jobs 2",),
    "bench train": (
        "regard bench train --size tiny --rounds 3",
        "regard bench train --shape vit-s16 --device cuda",
    ),
    "bench decode": ("regard bench decode --batch 1 --batch 32 --json",),
    "bench generate": ("regard bench generate runs/mine --new 64",),
    "bench scale": ("regard bench scale --workers 2",),
    "bench attention": (
        "regard bench attention --why",
        "regard bench attention --long --out attention.svg",
    ),
    "lab": ("regard lab", "regard lab rows --out lab", "regard lab rows --set axis=-2"),
    "practice": (
        "regard practice",
        "regard practice attention --out attention.py",
        "regard practice --check attention.py",
        "regard practice --check class/*.py --csv",
    ),
    "export": ("regard export runs/mine exported --to hf", "regard export runs/mine page --to web"),
    "import": ("regard import downloaded --out runs/theirs",),
    "card": ("regard card runs/mine --out README.md",),
    "draw": ("regard draw transformer", "regard draw runs/mine --out model.svg"),
    "info": ("regard info runs/mine --json",),
    "models": ("regard models",),
    "recipes": ("regard recipes", "regard recipes transformer"),
}

_SPEED = "what is measured takes a minute or more, and tests assert no speed"
UNTRIED: Mapping[str, str] = {
    "regard demo": "it trains for two minutes and serves until Ctrl-C",
    "regard demo --no-serve --set max_steps=50": "`make wheel` does it, with the wheel",
    "regard train transformer --set max_steps=500": "it trains for half a minute on quiet cores",
    "regard serve runs/mine": "it serves until Ctrl-C",
    "regard serve runs/mine --port 9000": "it serves until Ctrl-C",
    "regard compare bahdanau2015 transformer --budget 1e12flops --seeds 3": "it trains for minutes",
    "regard sweep mine.yaml --set lr=1e-4..1e-2 --trials 8 --search halving --jobs 2": "it starts "
    "a process for each of twelve trainings",
    "regard table translation --jobs 2": "it trains for hours",
    "regard practice --check attention.py": "it checks what a learner has written",
    "regard practice --check class/*.py --csv": "it checks what learners have written",
    "regard bench train --size tiny --rounds 3": _SPEED,
    "regard bench train --shape vit-s16 --device cuda": "it needs a GPU",
    "regard bench decode --batch 1 --batch 32 --json": _SPEED,
    "regard bench generate runs/mine --new 64": _SPEED,
    "regard bench scale --workers 2": _SPEED,
    "regard bench attention --long --out attention.svg": _SPEED,
}
"""Examples that tests read and do not run, and why; all others are run by them."""


def epilog(verb: str) -> str | None:
    """The end of a command's help; plug-ins' commands have none. ``bench`` has verbs of its own."""
    some = EXAMPLES.get(verb)
    return None if some is None else "\n\n".join(["Examples:", *some])
