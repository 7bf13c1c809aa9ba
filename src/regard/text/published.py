"""Tokenizers in the files of others: tokenizer.json, word pieces, byte-level pieces.

What special tokens are for is read from the files beside them, or is what the kind is known for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from regard.core.errors import CheckpointError
from regard.text.chat_template import TEMPLATE
from regard.text.foreign import ForeignTokenizer
from regard.text.marks import Marks
from regard.text.published_files import read_lines, read_object, read_text, read_vocabulary

Special = dict[str, str]
"""Name, such as ``cls_token`` -> the token."""
FILES = ("special_tokens_map.json", "tokenizer_config.json")
BERT: Special = {
    "pad_token": "[PAD]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "unk_token": "[UNK]",
    "mask_token": "[MASK]",
}
"""What BERT's are called where nobody says otherwise."""
END_OF_TEXT = "<|endoftext|>"
"""What GPT-2's end is called."""


def word_pieces(folder: Path) -> ForeignTokenizer:
    """The tokenizer of a BERT-type folder: tokenizer.json, or vocab.txt."""
    special = {**BERT, **_special(folder)}
    inner = _file(folder) or _from_vocabulary(folder, special)
    ids = _ids(inner, special)
    missing = [name for name in ("cls_token", "sep_token") if name not in ids]
    if missing:
        raise CheckpointError(f"the tokenizer in {folder} has no {' and no '.join(missing)}")
    marks = Marks(
        pad=ids.get("pad_token", 0),
        begin=ids["cls_token"],
        end=ids["sep_token"],
        unknown=ids.get("unk_token"),
        mask=ids.get("mask_token"),
    )
    return ForeignTokenizer(inner, marks)


def pieces_in_bytes(folder: Path, ends: Sequence[int]) -> ForeignTokenizer:
    """The tokenizer of a language model: tokenizer.json, or vocab.json and merges.txt.

    ``ends`` are the ends of a text as the model's configuration has them, the first one first.
    """
    inner = _file(folder) or _from_merges(folder)
    ids = _ids(inner, _special(folder))
    every = [ids["eos_token"], *ends] if "eos_token" in ids else list(ends)
    if not every:
        raise CheckpointError(f"neither the tokenizer nor the model in {folder} names an end token")
    end, *others = dict.fromkeys(every)
    marks = Marks(
        pad=ids.get("pad_token", end),
        begin=ids.get("bos_token"),
        end=end,
        unknown=ids.get("unk_token"),
        other_ends=tuple(others),
    )
    return ForeignTokenizer(inner, marks)


def published_template(folder: Path) -> str | None:
    """How conversations are written down: chat_template.jinja, or what tokenizer_config.json says.

    Of several templates the one called ``default``.
    """
    path = folder / TEMPLATE
    if path.exists():
        return read_text(path)
    found = read_object(folder / "tokenizer_config.json").get("chat_template")
    if isinstance(found, list):
        named = {one.get("name"): one.get("template") for one in found if isinstance(one, dict)}
        found = named.get("default")
    return found if isinstance(found, str) else None


CUTS: Mapping[str, Sequence[pre_tokenizers.PreTokenizer]] = {
    "gpt-2": (pre_tokenizers.ByteLevel(add_prefix_space=False),),
    "default": (pre_tokenizers.ByteLevel(add_prefix_space=False),),
    "smollm": (
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False),
    ),
}
"""How texts are cut before pieces are merged, by the names that GGUF files use."""
CONTROL, OWN = 3, 4
"""Types of tokens in GGUF files that are found whole in a text."""


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
            single=[token, "$A"],
            special_tokens=[(token, begin)],
        )
    return inner


def _file(folder: Path) -> tokenizers.Tokenizer | None:
    path = folder / "tokenizer.json"
    if not path.exists():
        return None
    try:
        inner = tokenizers.Tokenizer.from_str(path.read_text(encoding="utf-8"))
    except Exception as error:  # the library raises bare Exception
        raise CheckpointError(f"{path} is damaged or no tokenizer: {error}") from error
    return _knowing_unknown(inner, path)


def _from_vocabulary(folder: Path, special: Special) -> tokenizers.Tokenizer:
    path = folder / "vocab.txt"
    lines = read_lines(path)
    said = read_object(folder / "tokenizer_config.json")
    lowers = bool(said.get("do_lower_case", True))
    table = {token: number for number, token in enumerate(lines)}
    inner = tokenizers.Tokenizer(models.WordPiece(table, unk_token=special["unk_token"]))
    inner.normalizer = normalizers.BertNormalizer(lowercase=lowers)
    inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    inner.decoder = decoders.WordPiece()
    inner.add_special_tokens([token for token in special.values() if token in table])
    return _knowing_unknown(inner, path)


def _from_merges(folder: Path) -> tokenizers.Tokenizer:
    ids = read_vocabulary(folder / "vocab.json")
    lines = read_lines(folder / "merges.txt")
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
        for key, value in read_object(folder / name).items():
            token = value.get("content") if isinstance(value, dict) else value
            if key.endswith("_token") and isinstance(token, str):
                found.setdefault(key, token)
    return found


def _ids(inner: tokenizers.Tokenizer, special: Special) -> dict[str, int]:
    known = {name: inner.token_to_id(token) for name, token in special.items()}
    return {name: number for name, number in known.items() if number is not None}
