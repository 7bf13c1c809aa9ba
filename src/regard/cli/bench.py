"""``regard bench``: how fast we are here, beside the peers that are installed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.terminal import Device, Json, note, show_tables
from regard.core.errors import ConfigError

if TYPE_CHECKING:
    from regard.bench.contest import BenchRequest
    from regard.bench.results import Bench

app = typer.Typer(
    help="Speed here, beside the peers that are installed: same work, in turn, medians.",
    no_args_is_help=True,
)

Size = Annotated[str | None, typer.Option(help="tiny, small or base; by default as the device.")]
Vocab = Annotated[int | None, typer.Option(min=16, help="Tokens of the vocabulary.")]
Rounds = Annotated[int, typer.Option(min=1, help="Rounds in turn; the median counts.")]
Only = Annotated[
    list[str] | None, typer.Option(help="Only this contender (regard is us); may be repeated.")
]
Precision = Annotated[
    str | None, typer.Option(help="fp32, bf16 (decode: int8); by default all that win somewhere.")
]
Long = Annotated[bool, typer.Option("--long", help="Also growth with length and with the batch.")]
Out = Annotated[Path | None, typer.Option(help="An SVG file for the picture.")]


@app.command("train")
def train(
    shape: Annotated[
        str | None,
        typer.Option(
            help="Another model instead, at its sizes: gpt2-small or bert-base (texts), vit-s16 or "
            "vit-cifar (pictures)."
        ),
    ] = None,
    size: Size = None,
    vocab: Vocab = None,
    batch_tokens: Annotated[
        int | None, typer.Option(min=16, help="Tokens of a batch on its longer side.")
    ] = None,
    rounds: Rounds = 5,
    only: Only = None,
    precision: Precision = None,
    long: Long = False,
    systems: Annotated[
        bool, typer.Option("--systems", help="Our other systems too, and what limits them.")
    ] = False,
    device: Device = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Train a translator: target tokens a second, padding not counted. Or another shape."""
    # Torch's profiler, which finds the limits, tells of every beginning and end unless it is asked
    # not to before torch is loaded.
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    asked = _asked(device, precision, rounds, only, long, out)
    if shape is not None:
        from regard.bench.shapes import shape_train_bench

        if size is not None or systems:
            raise ConfigError("--shape has its own size, and no other systems beside it")
        bench = shape_train_bench(asked, shape, vocab=vocab, batch_tokens=batch_tokens)
    else:
        from regard.bench.training import train_bench

        bench = train_bench(
            asked, size=size, vocab=vocab, batch_tokens=batch_tokens, systems=systems
        )
    _give(bench, out, as_json)


@app.command("decode")
def decode(
    size: Size = None,
    vocab: Vocab = None,
    batch: Annotated[
        list[int] | None, typer.Option(min=1, help="Sentences side by side; may be repeated.")
    ] = None,
    rounds: Rounds = 5,
    only: Only = None,
    precision: Precision = None,
    long: Long = False,
    device: Device = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Write translations, greedily and by beam search: tokens a second."""
    from regard.bench.decoding import decode_bench

    asked = _asked(device, precision, rounds, only, long, out)
    _give(decode_bench(asked, size=size, vocab=vocab, batches=batch or ()), out, as_json)


@app.command("generate")
def generate(
    run: Annotated[
        Path | None, typer.Argument(help="A run that writes; else random weights.")
    ] = None,
    shape: Annotated[
        str | None, typer.Option(help="Random weights of this shape: smollm2-135m or gpt2.")
    ] = None,
    prompt: Annotated[int, typer.Option(min=1, help="Tokens of a prompt.")] = 32,
    new: Annotated[int, typer.Option(min=1, help="Tokens to write.")] = 256,
    batch: Annotated[
        list[int] | None, typer.Option(min=1, help="Prompts side by side; may be repeated.")
    ] = None,
    rounds: Rounds = 5,
    only: Only = None,
    precision: Precision = None,
    device: Device = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Write on with a language model, greedily: tokens a second."""
    from regard.bench.decoding import generate_bench

    asked = _asked(device, precision, rounds, only, False, out)
    sizes = {"n_prompt": prompt, "n_new": new}
    _give(generate_bench(asked, run=run, shape=shape, **sizes, batches=batch or (1,)), out, as_json)


@app.command("scale")
def scale(
    workers: Annotated[int, typer.Option(help="Processes that are measured, at most.")] = 4,
    devices: Annotated[int, typer.Option(help="Devices that are projected, at most.")] = 256,
    bandwidth: Annotated[
        float | None,
        typer.Option(min=0.001, help="GB/s between devices; by default as measured here."),
    ] = None,
    size: Size = None,
    vocab: Vocab = None,
    batch_tokens: Annotated[
        int | None, typer.Option(min=16, help="Tokens of a micro-batch on its longer side.")
    ] = None,
    rounds: Rounds = 5,
    device: Device = "cpu",
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Training by 1, 2, 4, … processes: measured here, projected beyond, memory of a part."""
    from regard.bench.scale import scale_bench

    asked = _asked(device, "fp32", rounds, None, False, out)
    each = None if bandwidth is None else 1e9 * bandwidth
    sizes = {"size": size, "vocab": vocab, "batch_tokens": batch_tokens}
    bench = scale_bench(asked, workers=workers, devices=devices, bandwidth=each, **sizes)  # type: ignore[arg-type]
    _give(bench, out, as_json)
    if not as_json:
        for n, ratio in bench.facts["cpu_seconds_to_one"].items():
            print(f"{n} processes take {ratio:.2f} times the CPU seconds of one")


@app.command("attention")
def attention(
    size: Size = None,
    rounds: Rounds = 5,
    only: Only = None,
    precision: Precision = None,
    long: Long = False,
    why: Annotated[
        bool, typer.Option("--why", help="Which kernel does which work, and why; nothing is run.")
    ] = False,
    device: Device = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Causal attention, forward and backward: TFLOP/s and memory beside torch's kernels."""
    from regard.bench.attention import attention_bench, why_table

    if not why:
        asked = _asked(device, precision, rounds, only, long, out)
        _give(attention_bench(asked, size=size), out, as_json)
    elif as_json:
        print(json.dumps({"kernels": why_table()}, ensure_ascii=False))
    else:
        _show_kernels(why_table())


def _show_kernels(rows: list[dict[str, str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    grid = Table("Kernel", "When", "Why", show_lines=True)
    for row in rows:
        grid.add_row(*row.values())
    Console(markup=False, highlight=False).print(grid)
    print("The first that fits is taken; where the weights are wanted, the readable reference is.")


def _asked(
    device: str | None,
    precision: str | None,
    rounds: int,
    only: list[str] | None,
    long: bool,
    out: Path | None,
) -> BenchRequest:
    from regard.bench.contest import BenchRequest
    from regard.visual.figures import figure_form

    if out is not None and (out.is_dir() or not out.parent.is_dir()):
        raise ConfigError(f"--out {out} is not a file that can be written: name an SVG file")
    if out is not None:
        figure_form(out)  # or says what is missing
    return BenchRequest(device, precision, rounds, tuple(only or ()), long, note)


def _give(bench: Bench, out: Path | None, as_json: bool) -> None:
    """Numbers first: a disk that is full does not cost them."""
    if as_json:
        print(json.dumps(bench.as_json(), ensure_ascii=False))
    else:
        _show(bench)
    if out is not None:
        from regard.bench.results import plot
        from regard.core.files import write_whole
        from regard.visual.figures import figure, figure_form

        write_whole(out, figure(plot(bench), figure_form(out)))
        note(f"the picture is {out}")


def _show(bench: Bench) -> None:
    from regard.bench.results import remarks, tables

    rates = ", ".join(f"{name} {rate / 1e12:.3g}" for name, rate in bench.matrix_rates.items())
    print(f"{bench.device}; matrices in TFLOP/s: {rates}")
    show_tables(tables(bench))
    for line in remarks(bench):
        print(line)
