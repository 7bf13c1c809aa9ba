"""What there is (models, recipes, a run), and how runs come and go (import, export)."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from textwrap import wrap
from typing import Annotated, Any

import typer

from regard.cli.completion import recipe_names
from regard.cli.run_paths import RunPath
from regard.cli.terminal import Json, note
from regard.cli.terminal import write as write_text
from regard.core.errors import CheckpointError

_WIDE = 84
"""Letters of a fact in a line."""


def models() -> None:
    """List the systems that can be trained, with their sizes and the recipes that train them."""
    from regard.models.presets import PRESETS
    from regard.recipes.recipe import recipes_by_preset

    trained = recipes_by_preset()
    for name, preset in PRESETS.items():
        recipes = ", ".join(trained.get(name, ())) or f"none; set model.preset={name} in your own"
        print(f"{name:16} {preset.summary}; sizes: {', '.join(preset.sizes)}; recipes: {recipes}")


def recipes(
    name: Annotated[
        str | None,
        typer.Argument(help="Print this recipe, to read or to copy.", autocompletion=recipe_names),
    ] = None,
) -> None:
    """List the built-in recipes by task, the lightest first, or print the text of one.

    A recipe of yours can say `base: NAME` and then only what it has otherwise.
    """
    from regard.recipes.recipe import recipe_text, recipes_by_task
    from regard.tasks.base import TASKS

    if name is not None:
        print(recipe_text(name), end="")
        return
    print("your files: name them by --set folder=PATH, as the first lines of each recipe say")
    for task, some in recipes_by_task().items():
        print(f"\n{task}, for `regard {TASKS[task].verb.name}`")
        for one in some:
            needs = "built in" if one.world else "your files"
            where = ", GPU" if one.for_gpu else ""
            print(f"  {one.name:19} {needs:10} {f'{one.steps:,} steps{where}':>17}  {one.headline}")


def info(path: RunPath, as_json: Json = False) -> None:
    """Tell what a run is: its model, its task, its special ids, its scores and cost.

    At the end stands the model as a tree of its blocks, with shapes and parameters.
    """
    from regard.checkpoints.run_folder import load_scores
    from regard.core.files import damage_told
    from regard.tasks.drawing import drawing_of_run
    from regard.tasks.opening import load
    from regard.visual.drawing import drawing_text

    run = load(path, device="cpu")
    finished = load_scores(run.folder) if run.folder.finished() else {}
    with damage_told(run.folder.scores):
        _show_info(run.facts(), finished, as_json, idle=run.model.config.idle)
    if not as_json:
        print(drawing_text(drawing_of_run(run)))


def _show_info(
    facts: dict[str, Any], finished: Mapping[str, Any], as_json: bool, *, idle: Collection[str]
) -> None:
    """Print what a run is; ``finished`` is its scores.json. Settings that do nothing are left out
    where people read."""
    cost, scores = finished.get("measured", {}).get("flops"), finished.get("scores", {})
    facts = {**facts, "training_flops": cost, "scores": scores}
    if as_json:
        print(json.dumps(facts, ensure_ascii=False))
        return
    plain = {name: value for name, value in facts.items() if name not in ("model", "scores")}
    known = {key: one for key, one in facts["model"].items() if one is not None and key not in idle}
    settings = " ".join(f"{key}={json.dumps(one)}" for key, one in known.items()).replace('"', "")
    for name, value in {**plain, "model": settings}.items():
        lines = wrap(_told(value), _WIDE, break_long_words=False, break_on_hyphens=False)
        print(f"{name.replace('_', ' '):16}" + f"\n{'':16}".join(lines))
    if scores:
        from regard.cli.evaluate import show_scores

        show_scores(scores)


def _told(value: Any) -> str:
    """A fact in words: large numbers short, lists and tables without brackets."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_told(one)}" for name, one in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_told, value))
    if value is None:
        return "unknown"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def card(
    path: RunPath,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write it, such as README.md.")
    ] = None,
    license_name: Annotated[
        str, typer.Option("--license", help="The licence, as model hubs spell it.")
    ] = "unknown",
    datasets: Annotated[
        list[str] | None,
        typer.Option(
            "--dataset", metavar="NAME", help="A data set by its name on a hub; may be given again."
        ),
    ] = None,
) -> None:
    """Write a model card as model hubs expect it: data, scores with signatures, cost, limits.

    All of it comes from the run folder; what that does not say is left out, or told as unknown.
    """
    from regard.runs.card import model_card
    from regard.tasks.opening import load

    text = model_card(load(path, device="cpu"), license_name=license_name, datasets=datasets or ())
    write_text(text, out)


def _check_source(path: Path) -> Path:
    """Refuse a name that means nothing here at once, before torch is imported."""
    if not path.exists():
        raise CheckpointError(
            f"there is no {path} to import: expected a folder in the layout of Hugging Face or "
            "CTranslate2, or a .gguf file; to get one from a hub, run its own client, such as "
            f"`hf download {path} --local-dir {path.name}`"
        )
    return path


def import_(
    source: Annotated[
        Path,
        typer.Argument(metavar="SOURCE", help="A folder, or a .gguf file.", callback=_check_source),
    ],
    out: Annotated[Path, typer.Option(help="The run folder to write, new or empty.")],
    direction: Annotated[
        str | None,
        typer.Option(help="Languages of a translator, such as de-en, if it does not tell them."),
    ] = None,
) -> None:
    """Make a run of a model in a format of the ecosystem.

    Folders in the layout of Hugging Face and of CTranslate2. The run is like any other: translate,
    explain, heads, serve. To train on, give its config.yaml to `regard train` with your data.train,
    and train.init=RUN.
    """
    from regard.interop.importing import import_model, kind_of

    for line in import_model(source, out, direction):
        note(line)
    print(f"{out}: {kind_of(source)}")


def export(
    path: RunPath,
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder, new or empty.")],
    to: Annotated[str, typer.Option(help="The format: hf, ctranslate2, onnx or web.")],
) -> None:
    """Write a run in a format of the ecosystem, with its tokenizers beside it.

    CTranslate2 gives the same translations: load DIR with its Translator, hand over the tokens of
    tokenizer.json, and let the decoder of that file join what comes back. hf writes a folder that
    transformers loads by its Auto classes: a translator as Marian, an encoder as BERT, a language
    model as GPT-2 or LLaMA, models of pictures as ViT or DETR. Only plain attention can go to
    either. onnx writes files as Optimum does: a translator as encoder_model.onnx,
    decoder_model.onnx and decoder_with_past_model.onnx, any other model as model.onnx. web writes
    the page of `regard serve` with a translator in it: it runs in the browser, without a server,
    from any web space or a disk.
    """
    from regard.runs.export import export as write
    from regard.runs.progress import told_if_slow
    from regard.tasks.opening import load

    run = load(path, device="cpu")
    with told_if_slow(f"writing {path} as {to}; a large model takes minutes", note):
        written = write(run, to, folder)
    for line in written.notes:
        note(line)
    print(written)
