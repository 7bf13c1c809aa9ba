"""Recipes whose training texts lie in shards: how these are made, and how training opens them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from regard.core.errors import DataError
from regard.data.corpora import Tally, read_records
from regard.data.examples import LongRule
from regard.data.file_patterns import check_there
from regard.data.language import check_texts, stream_texts
from regard.data.records import Corpus, Pair
from regard.data.settings import Files
from regard.data.sharding import SAMPLE, PairEncoder, Preparation, TextEncoder, Texts, sampled
from regard.data.shards import Manifest, ShardFolder, read_manifest, tokenizers_digest
from regard.data.splits import located
from regard.models.presets import resolve
from regard.tasks.generation import framing_for
from regard.tasks.opening import (
    SHARED,
    Tokenizers,
    load_tokenizer,
    load_tokenizers,
    train_tokenizers,
)
from regard.tasks.recipe import Recipe
from regard.text.pretrained import tokenizers_in
from regard.text.tokenizer import Tokenizer

Say = Callable[[str], None]
SHARD_SETTINGS = frozenset({"data.shards", "data.mix", "data.window_tokens"})
"""Settings of tasks whose training texts may lie in shards."""
_OF_LENGTH = ("model.max_len", "long pairs")
"""What pairs depend on only where some are too long."""

# ------------------------------------------------------------------ opened


def open_pairs(
    recipe: Recipe, records: str, tokenizers: Tokenizers, max_len: int, rule: LongRule
) -> ShardFolder:
    """The shards of a recipe that learns pairs; those of another are refused."""
    folder = ShardFolder(_home(recipe))
    manifest = folder.manifest
    asked = _asked(recipe, records, max_len, rule)
    if not manifest.n_long and manifest.longest <= max_len:
        asked |= {name: manifest.asked.get(name) for name in _OF_LENGTH}
    folder.check(asked, (tokenizers.source, tokenizers.target))
    return folder


def open_texts(recipe: Recipe, tokenizer: Tokenizer) -> ShardFolder:
    """The shards of a recipe that learns a language; those of another are refused."""
    folder = ShardFolder(_home(recipe))
    folder.check(_asked(recipe, "text"), (tokenizer,))
    return folder


def shard_tokenizers(recipe: Recipe) -> Tokenizers:
    """Those that the shards of a recipe were made with; shards that are not there are told."""
    read_manifest(_home(recipe))
    return load_tokenizers(_home(recipe))


def weights(recipe: Recipe) -> list[float]:
    """Of each corpus of a recipe."""
    return [one.weight for one in recipe.data.corpora]


def _home(recipe: Recipe) -> Path:
    assert recipe.data.shards is not None, "no shards are named"
    return Path(recipe.data.shards)


def _asked(
    recipe: Recipe, records: str, max_len: int | None = None, rule: LongRule | None = None
) -> dict[str, Any]:
    """Settings that shards depend on, as JSON has them. Weights of a mix are no part of it."""
    data, text = recipe.data, recipe.text
    asked = {
        "records": records,
        "data.train": [one.train for one in data.corpora],
        "data.columns": data.columns,
        "text.kind": text.kind,
        "text.vocab_size": text.vocab_size,
        "text.lowercase": text.lowercase,
    }
    if rule is not None:
        asked |= {"text.shared": text.shared, **dict(zip(_OF_LENGTH, (max_len, rule), strict=True))}
    found: dict[str, Any] = json.loads(json.dumps(asked))  # tuples are lists there
    return found


# ------------------------------------------------------------------ made


def shard_pairs(
    recipe: Recipe, records: str, rule: LongRule, *, n_workers: int, say: Say
) -> Manifest:
    """Fill the folder of a recipe that learns pairs, or go on with it."""
    home, init = _home(recipe), recipe.train.init
    # How long texts may be does not depend on the size of the vocabulary.
    sizes = {"n_source_vocab": 9, "n_target_vocab": 9, "shared_vocab": recipe.text.shared}
    max_len = resolve(recipe.model, **sizes).max_len
    _files(recipe)
    work = Preparation(home, _asked(recipe, records, max_len, rule))
    work.begin()
    if not work.ready:
        if init is None:
            sample = _sample(work, _pairs(recipe, records, Tally()))
            pairs = [Pair(source, target) for source, target in sample]
            train_tokenizers(pairs, recipe.text).save(home)
        else:  # the weights there know no other ids
            load_tokenizers(Path(init)).save(home)
        work.tokenizers_saved()
    tally = Tally()
    encode = PairEncoder(home, max_len, rule)
    shards = work.make(_pairs(recipe, records, tally), encode, n_workers=n_workers, say=say)
    skipped: Corpus[Pair] = Corpus((), tally.n_empty, tally.n_headers, tally.n_unanswered)
    notes = [*work.notes, *skipped.notes("train")]
    if n_long := sum(one.n_long for one in shards):
        if not any(one.units for one in shards):
            raise DataError(
                f"all {n_long} pairs are longer than max_len={max_len} tokens; raise "
                "model.max_len, or set data.long_lines=truncate, and name another folder"
            )
        verb = "cut to" if rule == "truncate" else "left out, being longer than"
        notes.append(f"train: {n_long} pairs {verb} max_len={max_len} tokens")
    manifest = Manifest(
        kind="pair",
        asked=dict(work.asked),
        tokenizers=tokenizers_digest(tokenizers_in(home)),
        notes=tuple(notes),
        shards=tuple(shards),
    )
    work.finish(manifest)
    return manifest


def shard_texts(recipe: Recipe, *, n_workers: int, say: Say) -> Manifest:
    """Fill the folder of a recipe that learns a language, or go on with it."""
    home, init = _home(recipe), recipe.train.init
    check_texts(recipe.data)
    _files(recipe)
    work = Preparation(home, _asked(recipe, "text"))
    work.begin()
    if not work.ready:
        if init is None:
            sample = _sample(work, _texts(recipe))
            tokenizer = Tokenizer.train([text for (text,) in sample], recipe.text)
        else:
            tokenizer = load_tokenizer(Path(init))
        tokenizer.save(home / SHARED)
        work.tokenizers_saved()
    opening = framing_for(load_tokenizer(home), recipe.data).opening
    shards = work.make(_texts(recipe), TextEncoder(home, opening), n_workers=n_workers, say=say)
    manifest = Manifest(
        kind="text",
        asked=dict(work.asked),
        tokenizers=tokenizers_digest(tokenizers_in(home)),
        notes=tuple(work.notes),
        shards=tuple(shards),
    )
    work.finish(manifest)
    return manifest


def _pairs(recipe: Recipe, records: str, tally: Tally) -> list[Iterator[Texts]]:
    """The pairs of each corpus, read as they are needed."""
    read = [read_records(one, records, recipe.data, "train", tally) for one in _files(recipe)]
    return [((one.source, one.target) for one in some) for some in read]


def _texts(recipe: Recipe) -> list[Iterator[Texts]]:
    """The texts of each corpus, read as they are needed."""
    read = [stream_texts(str(one)) for one in _files(recipe)]
    return [((text,) for text in some) for some in read]


def _files(recipe: Recipe) -> list[Files]:
    """Those of each corpus; one that is not there is told before anything is done."""
    named = {str(number): one.train for number, one in enumerate(recipe.data.corpora)}
    found = [*located(named, recipe.data.folder).values()]
    for files in found:
        check_there(files)
    return found


def _sample(work: Preparation, corpora: Sequence[Iterator[Texts]]) -> list[Texts]:
    """What a tokenizer is trained on; noted where it is not all there is."""
    sample, one_in = sampled(chain(*corpora), SAMPLE)
    if one_in > 1:
        work.notes.append(
            f"the tokenizer was trained on {len(sample):,} lines, about one in {one_in:,}"
        )
    return sample
