"""Memory and time of a corpus ten times larger than the memory that it may use.

python benchmarks/large_corpus.py /tmp/large --megabytes 1000 --allowed 100

Writes pairs of sentences until their ids take so many megabytes, tokenises them with
``regard prepare`` and reads one epoch of batches and trains some steps, each in a process of its
own. Peak memory (resident, mapped files included) is told above that of the same process with a
corpus of 1 % of the size. Takes some minutes; a folder that is there already is used again.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

N_FILES, N_WORDS, N_SENTENCES = 10, 20_000, 100_000
VOCABULARY, IDS_A_PAIR = 400, 78.0
"""Pieces of words are small, so that little text has many ids."""
STEPS = 5


def main() -> None:
    """Write, prepare, read and train; then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--megabytes", type=int, default=1000, help="of ids, 4 bytes each")
    parser.add_argument("--allowed", type=int, default=100, help="megabytes above the baseline")
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    found = {}
    for name, size in {"small": asked.megabytes / 100, "large": asked.megabytes}.items():
        home = asked.folder / f"{name}-{asked.megabytes}"
        began = time.perf_counter()
        write_corpus(home, round(size * 1e6 / 4 / IDS_A_PAIR))
        print(f"{name}: written in {time.perf_counter() - began:.0f} s", flush=True)
        found[name] = {
            "prepare": in_a_process("prepare", home, asked.workers),
            "epoch": in_a_process("epoch", home, asked.workers),
            "train": in_a_process("train", home, asked.workers),
        }
        print(json.dumps({name: found[name]}, indent=1), flush=True)
    for step in ("prepare", "epoch", "train"):
        small, large = (found[name][step]["peak_mb"] for name in ("small", "large"))
        above = large - small
        verdict = "within" if above <= asked.allowed else "BEYOND"
        print(
            f"{step}: {large:.0f} MB, {above:+.0f} above {small:.0f} MB: {verdict} what is allowed"
        )
    epoch = found["large"]["epoch"]
    print(f"{epoch['ids_mb']:,.0f} MB of ids, {epoch['ms_a_batch']:.2f} ms a batch")


def write_corpus(home: Path, n_pairs: int) -> None:
    """Pairs in some files of tab-separated lines, and a recipe."""
    if (home / "recipe.yaml").exists():
        return
    home.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = ["".join(rng.choice(letters, rng.integers(2, 9))) for _ in range(N_WORDS)]
    ranks = np.minimum(rng.zipf(1.2, (N_SENTENCES, 30)), N_WORDS) - 1
    lengths = rng.integers(5, 30, N_SENTENCES)
    pool = [
        " ".join(words[i] for i in row[:n])
        for row, n in zip(ranks.tolist(), lengths.tolist(), strict=True)
    ]
    per_file = -(-n_pairs // N_FILES)
    for number in range(N_FILES):
        with (home / f"part-{number}.tsv").open("w", encoding="utf-8") as file:
            for begin in range(0, per_file, 10_000):
                rows = rng.integers(N_SENTENCES, size=(min(10_000, per_file - begin), 2)).tolist()
                file.write("".join(f"{pool[a]}\t{pool[b]}\n" for a, b in rows))
    valid = "".join(f"{pool[i]}\t{pool[-i - 1]}\n" for i in range(50))
    (home / "valid.tsv").write_text(valid, encoding="utf-8")
    recipe = {
        "data": {
            "train": f"{home}/part-*.tsv",
            "valid": f"{home}/valid.tsv",
            "shards": str(home / "shards"),
        },
        "text": {"kind": "bpe", "vocab_size": VOCABULARY},
        "model": {"preset": "transformer", "size": "tiny"},
        "train": {"max_steps": STEPS, "batch_tokens": 4096, "eval_every": STEPS},
    }
    (home / "recipe.yaml").write_text(json.dumps(recipe), encoding="utf-8")


def in_a_process(step: str, home: Path, workers: int) -> dict[str, float]:
    """What a step in a fresh process took, and its peak memory."""
    command = [sys.executable, __file__, "--step", step, str(home), str(workers)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    facts: dict[str, float] = json.loads(done.stdout.strip().split("\n")[-1])
    return facts


def one_step(step: str, home: Path, workers: int) -> dict[str, float]:
    """Do a step here; -> its facts."""
    began = time.perf_counter()
    facts = {"prepare": prepare_step, "epoch": epoch_step, "train": train_step}[step](home, workers)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return {"peak_mb": peak, "seconds": time.perf_counter() - began, **facts}


def prepare_step(home: Path, workers: int) -> dict[str, float]:
    """``regard prepare``, in this process."""
    from regard.recipes.recipe import load_recipe
    from regard.runs.prepare import shard

    manifest = shard(load_recipe(str(home / "recipe.yaml"), []), n_workers=workers)
    pairs = sum(one.units for one in manifest.shards)
    return {"shards": len(manifest.shards), "pairs": pairs}


def epoch_step(home: Path, workers: int) -> dict[str, float]:
    """All batches of an epoch, as a training asks for them."""
    import torch

    from regard.data.shard_windows import ShardedPairs
    from regard.recipes.recipe import load_recipe
    from regard.runs.prepare import prepare
    from regard.tasks.translation_training import PreparedTranslation

    del workers
    prepared = prepare(load_recipe(str(home / "recipe.yaml"), []), torch.device("cpu"))
    assert isinstance(prepared, PreparedTranslation)
    assert isinstance(prepared.train, ShardedPairs)
    stream = prepared.stream()
    began, n_batches, n_pairs, longest = time.perf_counter(), 0, 0, 0.0
    while stream.epoch == 0:
        asked = time.perf_counter()
        n_pairs += len(stream.next().numbers)
        longest = max(longest, time.perf_counter() - asked)
        n_batches += 1
    seconds = time.perf_counter() - began
    shards = prepared.train.folder.manifest.shards
    return {
        "batches": n_batches,
        "ms_a_batch": 1e3 * seconds / n_batches,
        "longest_wait_ms": 1e3 * longest,
        "pairs": n_pairs,
        "windows": prepared.train.n_windows,
        "ids_mb": 4e-6 * sum(one.ids for one in shards),
        "ids_a_pair": sum(one.ids for one in shards) / sum(one.units for one in shards),
    }


def train_step(home: Path, workers: int) -> dict[str, float]:
    """Some steps of ``regard train``."""
    from regard.recipes.recipe import load_recipe
    from regard.runs.train import train

    del workers
    recipe = load_recipe(str(home / "recipe.yaml"), [])
    trained = train(recipe, home / "run", overwrite=True, device="cpu")
    assert trained is not None
    return {"steps": trained.outcome.progress.step}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--step"]:
        print(json.dumps(one_step(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))))
    else:
        main()
