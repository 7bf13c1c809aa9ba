"""Tokenizers that others trained, with their own ids, and the files that they come in.

Any file of the ``tokenizers`` library will do. What its special tokens are for is not told by that
file, so it is read from the files beside it, or is what the kind is known for, and is kept in a
file of its own in a run folder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from regard.core.errors import CheckpointError
from regard.core.files import parse_json, read_json, read_text, write_whole
from regard.core.numbers import told
from regard.text.chat import TEMPLATE
from regard.text.settings import Kind
from regard.text.specials import SpecialIds
from regard.text.tokenizer import Tokenizer
from regard.text.tokenizer_files import read_tokenizer

MARKS = "marks.json"
"""Ids of the special tokens, beside the tokenizer's file."""
SHARED, SOURCE, TARGET = "tokenizer.json", "source.json", "target.json"
"""What the tokenizers of a run are kept in: one for all texts, or one a side."""
Special = dict[str, str]
"""Name, such as ``cls_token`` -> the token."""
FILES = ("special_tokens_map.json", "tokenizer_config.json")
BERT = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "cls", "sep", "unk", "mask")}
"""What BERT's are called where nobody says otherwise."""
END_OF_TEXT = "<|endoftext|>"
"""What GPT-2's end is called."""
_IN_BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False)
CUTS: Mapping[str, Sequence[pre_tokenizers.PreTokenizer]] = {
    "gpt-2": [_IN_BYTES],
    "default": [_IN_BYTES],
    "smollm": [pre_tokenizers.Digits(individual_digits=True), _IN_BYTES],
}
"""How texts are cut before pieces are merged, by the names that GGUF files use."""
CONTROL, OWN = 3, 4
"""Types of tokens in GGUF files that are found whole in a text."""
MOST_IDS = 2**31
"""No model has as many rows."""


class PretrainedTokenizer(Tokenizer):
    """Strings ↔ ids as somebody else's model knows them."""

    def __init__(self, inner: tokenizers.Tokenizer, specials: SpecialIds) -> None:
        inner.no_padding()
        inner.no_truncation()
        super().__init__(inner, specials)
        self.kind: Kind = "bpe"  # pieces of words, whatever they are called
        self.n_vocab: int = max(self._tokens, default=-1) + 1
        if strange := specials.unknown_to(self._tokens):
            raise CheckpointError(
                f"special tokens must be ids of the tokenizer, 0 to {self.n_vocab - 1}, but found "
                f"{', '.join(strange)}: the tokenizer and what names its special tokens do not "
                "belong together"
            )

    @classmethod
    def load(cls, path: Path) -> PretrainedTokenizer:
        """The tokenizer that ``save`` wrote."""
        marks = path.with_name(MARKS)
        inner, said = read_tokenizer(path), read_text(marks)
        try:
            return cls(inner, SpecialIds.from_json(parse_json(said)))
        except (CheckpointError, AttributeError, TypeError, ValueError) as error:
            raise CheckpointError(f"{marks} is damaged: {told(error)}") from None

    def save(self, path: Path) -> None:
        """Write the file, and the ids of its special tokens beside it."""
        super().save(path)
        write_whole(path.with_name(MARKS), json.dumps(asdict(self.specials), indent=2) + "\n")


def tokenizers_in(folder: Path) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of source and target that are kept in a folder; one twice where shared."""
    read = PretrainedTokenizer.load if (folder / MARKS).exists() else Tokenizer.load
    if (folder / SOURCE).exists():
        return read(folder / SOURCE), read(folder / TARGET)
    shared = read(folder / SHARED)
    return shared, shared


def word_pieces(folder: Path) -> PretrainedTokenizer:
    """The tokenizer of a BERT-type folder: tokenizer.json, or vocab.txt."""
    special = {**BERT, **_special(folder)}
    inner = _file(folder) or _from_vocabulary(folder, special)
    ids = _ids(inner, special)
    missing = [name for name in ("cls_token", "sep_token") if name not in ids]
    if missing:
        raise CheckpointError(f"the tokenizer in {folder} has no {' and no '.join(missing)}")
    specials = SpecialIds(
        pad=ids.get("pad_token", 0),
        begin=ids["cls_token"],
        end=ids["sep_token"],
        unknown=ids.get("unk_token"),
        mask=ids.get("mask_token"),
    )
    return PretrainedTokenizer(inner, specials)


def pieces_in_bytes(folder: Path, ends: Sequence[int]) -> PretrainedTokenizer:
    """The tokenizer of a language model: tokenizer.json, or vocab.json and merges.txt.

    ``ends`` are the ends of a text as the model's configuration has them, the first one first.
    """
    inner = _file(folder) or _from_merges(folder)
    ids = _ids(inner, _special(folder))
    every = [ids["eos_token"], *ends] if "eos_token" in ids else list(ends)
    if not every:
        raise CheckpointError(f"neither the tokenizer nor the model in {folder} names an end token")
    end, *others = dict.fromkeys(every)
    specials = SpecialIds(
        pad=ids.get("pad_token", end),
        begin=ids.get("bos_token"),
        end=end,
        unknown=ids.get("unk_token"),
        other_ends=tuple(others),
    )
    return PretrainedTokenizer(inner, specials)


def published_template(folder: Path) -> str | None:
    """The chat template: a file, or what tokenizer_config.json calls ``default``."""
    path = folder / TEMPLATE
    if path.exists():
        return read_text(path)
    found = _read_object(folder / "tokenizer_config.json").get("chat_template")
    if isinstance(found, list):
        named = {one.get("name"): one.get("template") for one in found if isinstance(one, dict)}
        found = named.get("default")
    return found if isinstance(found, str) else None


def pieces_of(
    tokens: Sequence[str], merges: Sequence[str], types: Sequence[int], cut: str | None
) -> tokenizers.Tokenizer:
    """Byte-level pieces from the lists that a GGUF file carries."""
    ids = {token: number for number, token in enumerate(tokens)}
    whole = [token for token, kind in zip(tokens, types, strict=False) if kind in (CONTROL, OWN)]
    return _merging(ids, merges, whole, cut or "default")


def _merging(
    ids: dict[str, int], merges: Sequence[str], whole: Sequence[str], cut: str
) -> tokenizers.Tokenizer:
    """Byte-level pieces by id; tokens that are ``whole`` are not put together from others."""
    if cut not in CUTS:
        raise CheckpointError(
            f"texts are cut by the rule {cut!r} before merging; known are {', '.join(CUTS)}"
        )
    pairs = [(left, right) for left, _, right in (merge.partition(" ") for merge in merges)]
    try:
        inner = tokenizers.Tokenizer(models.BPE(ids, pairs))
    except Exception as error:  # the library raises bare Exception
        raise CheckpointError(f"tokens and merges do not fit together: {error}") from error
    inner.pre_tokenizer = pre_tokenizers.Sequence(list(CUTS[cut]))
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens(list(whole))
    return inner


def opened_with(inner: tokenizers.Tokenizer, begin: int) -> tokenizers.Tokenizer:
    """A tokenizer that puts a token before each text, where its model was taught so."""
    token = inner.id_to_token(begin)
    if token is not None:
        inner.post_processor = processors.TemplateProcessing(
            single=[token, "$A"], special_tokens=[(token, begin)]
        )
    return inner


def _file(folder: Path) -> tokenizers.Tokenizer | None:
    path = folder / "tokenizer.json"
    if not path.exists():
        return None
    return _knowing_unknown(read_tokenizer(path), path)


def _from_vocabulary(folder: Path, special: Special) -> tokenizers.Tokenizer:
    path = folder / "vocab.txt"
    lines = _read_lines(path)
    said = _read_object(folder / "tokenizer_config.json")
    lowers = bool(said.get("do_lower_case", True))
    table = {token: number for number, token in enumerate(lines)}
    inner = tokenizers.Tokenizer(models.WordPiece(table, unk_token=special["unk_token"]))
    inner.normalizer = normalizers.BertNormalizer(lowercase=lowers)
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.decoder = decoders.WordPiece()
    inner.add_special_tokens([token for token in special.values() if token in table])
    return _knowing_unknown(inner, path)


def _from_merges(folder: Path) -> tokenizers.Tokenizer:
    ids = _read_vocabulary(folder / "vocab.json")
    lines = _read_lines(folder / "merges.txt")
    merges = [line for line in lines if line and not line.startswith("#version")]
    return _merging(ids, merges, [token for token in (END_OF_TEXT,) if token in ids], "gpt-2")


def _knowing_unknown(inner: tokenizers.Tokenizer, path: Path) -> tokenizers.Tokenizer:
    """Unharmed: a tokenizer without its own token for the unknown fails at the first of them."""
    unknown = getattr(inner.model, "unk_token", None)
    if unknown is not None and inner.token_to_id(unknown) is None:
        raise CheckpointError(
            f"{path} has no {unknown!r}, which is to stand for what is unknown; copy it again, or "
            "name another unk_token in special_tokens_map.json"
        )
    return inner


def _special(folder: Path) -> Special:
    """Special tokens by name, as the files beside a tokenizer say."""
    found: Special = {}
    for name in FILES:
        for key, value in _read_object(folder / name).items():
            token = value.get("content") if isinstance(value, dict) else value
            if key.endswith("_token") and isinstance(token, str):
                found.setdefault(key, token)
    return found


def _ids(inner: tokenizers.Tokenizer, special: Special) -> dict[str, int]:
    known = {name: inner.token_to_id(token) for name, token in special.items()}
    return {name: number for name, number in known.items() if number is not None}


def _read_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file, empty where there is no file."""
    return read_json(path) if path.exists() else {}


def _read_vocabulary(path: Path) -> dict[str, int]:
    """Tokens with their ids: a number may be left out, none may stand twice."""
    _check_there(path)
    found = _read_object(path)
    wrong = [
        f"{token!r}: {one!r}"
        for token, one in found.items()
        if type(one) is not int or not 0 <= one < MOST_IDS
    ]
    if wrong or not found:
        told = wrong[0] if wrong else "nothing"
        raise CheckpointError(f"{path} is damaged: expected a number for each token, found {told}")
    if len(set(found.values())) < len(found):
        raise CheckpointError(f"{path} is damaged: two of its tokens have the same number")
    return found


def _read_lines(path: Path) -> list[str]:
    """Lines as line breaks make them; other signs that Python takes for one may be tokens."""
    _check_there(path)
    return read_text(path).removesuffix("\n").split("\n")


def _check_there(path: Path) -> None:
    if not path.exists():
        raise CheckpointError(
            f"{path.parent} has no tokenizer: neither tokenizer.json nor {path.name}"
        )
