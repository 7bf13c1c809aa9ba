"""Translators of others with their tokenizers, and the run folder that is made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from regard.checkpoints.run_folder import RunFolder, save_model
from regard.core.errors import CheckpointError
from regard.interop.ctranslate2_reading import read_ctranslate2
from regard.interop.hf_folder import GENERATION, read_json
from regard.interop.imported import Imported
from regard.interop.imported_recipe import save_recipe
from regard.interop.marian import marian_numbering, read_marian
from regard.interop.renumbering import SOURCE_TOKENS, TARGET_TOKENS
from regard.models.transformer import TransformerConfig
from regard.runs.tokenizers import SHARED, SOURCE, TARGET, Tokenizers
from regard.text.foreign import MARKS, ForeignTokenizer
from regard.text.lookup import character_table, word_table
from regard.text.marks import Marks
from regard.text.sentencepiece_file import read_sentencepieces, unigram
from regard.text.specials import BEGIN_ID, END_ID, PAD_ID, SPECIALS, UNKNOWN_ID
from regard.text.tokenizer import Tokenizer

SPM = ("source.spm", "target.spm")
OUR_MARKS = Marks(pad=PAD_ID, begin=BEGIN_ID, end=END_ID, unknown=UNKNOWN_ID)
JOINTS = ("▁", "@@", "￭", "##", "Ġ")
"""What pieces of words carry, in one tokenizer or another."""
UNKNOWN_LANGUAGES = "und-und"
"""ISO 639's code for a language that nobody told."""


@dataclass(frozen=True, slots=True)
class Translator:
    """All that a run folder needs."""

    model: Imported
    tokenizers: Tokenizers
    languages: str | None = None
    beam: int = 1


def from_marian(folder: Path) -> Translator:
    """A MarianMT folder: the model, and source.spm, target.spm and vocab.json, or our own files."""
    model = read_marian(folder)
    said = read_json(path) if (path := folder / "tokenizer_config.json").exists() else {}
    codes = [said.get("source_lang"), said.get("target_lang")]
    languages = "-".join(map(str, codes)) if all(codes) else None
    tokenizers = _our_own(folder) or tokenizers_beside(folder, *_marian_tokens(folder))
    return Translator(model, tokenizers, languages, _beam(folder / GENERATION))


def _beam(path: Path) -> int:
    """How many translations are kept while one is sought."""
    found = (read_json(path) if path.exists() else {}).get("num_beams") or 1
    if type(found) is not int or found < 1:
        raise CheckpointError(f"{path} must say num_beams as a number from 1, found {found!r}")
    return found


def _marian_tokens(folder: Path) -> tuple[list[str], list[str]]:
    """Tokens of source and target in our order."""
    source, target = marian_numbering(folder)
    first = read_json(folder / "vocab.json")
    path = folder / "target_vocab.json"
    second = read_json(path) if path.exists() else first
    return source.tokens(_by_id(first, len(source.rows))), target.tokens(
        _by_id(second, len(target.rows))
    )


def _by_id(ids: dict[str, int], n: int) -> list[str]:
    """Tokens by id; rows without one get a name that no text has."""
    tokens = [f"<unused{number}>" for number in range(n)]
    for token, number in ids.items():
        if not isinstance(number, int) or not 0 <= number < n:
            raise CheckpointError(f"vocab.json says {token!r} is {number!r}, of {n} rows")
        tokens[number] = token
    return tokens


def from_ctranslate2(folder: Path) -> Translator:
    """A CTranslate2 folder. It reads tokens, so what makes them of text is looked for beside it."""
    model, source, target = read_ctranslate2(folder)
    tokenizers = _our_own(folder) or tokenizers_beside(folder, source, target)
    return Translator(model, tokenizers)


def _our_own(folder: Path) -> Tokenizers | None:
    """Tokenizers that Regard once exported."""
    read = ForeignTokenizer.load if (folder / MARKS).exists() else Tokenizer.load
    if (folder / TARGET).exists():
        first = SOURCE if (folder / SOURCE).exists() else SHARED
        return Tokenizers(read(folder / first), read(folder / TARGET))
    if not (folder / SHARED).exists() or (folder / SPM[0]).exists():
        return None
    shared = read(folder / SHARED)
    return Tokenizers(shared, shared)


def tokenizers_beside(folder: Path, source: Sequence[str], target: Sequence[str]) -> Tokenizers:
    """By SentencePiece files, or by looking tokens up where each is a character or a word."""
    files = [folder / name for name in SPM]
    if not all(file.exists() for file in files):
        return Tokenizers(_looked_up(source, folder), _looked_up(target, folder))
    first, second = (
        ForeignTokenizer(unigram(read_sentencepieces(file), tokens), OUR_MARKS)
        for file, tokens in zip(files, (source, target), strict=True)
    )
    same = list(source) == list(target) and files[0].read_bytes() == files[1].read_bytes()
    return Tokenizers(first, first if same else second)


def _looked_up(tokens: Sequence[str], folder: Path) -> Tokenizer:
    texts = tokens[len(SPECIALS) :]
    if all(len(token) == 1 for token in texts):
        return Tokenizer(character_table(tokens))
    if any(token.startswith(JOINTS) or token.endswith(JOINTS) for token in texts):
        raise CheckpointError(
            f"{folder} has tokens that are pieces of words, and nothing that makes them of text; "
            f"copy {SPM[0]} and {SPM[1]} into it"
        )
    return Tokenizer(word_table(tokens))


def write_translator(
    translator: Translator, folder: RunFolder, direction: str | None
) -> tuple[str, ...]:
    """Fill an empty run folder; -> what a user should know."""
    model = _as_read(translator.model, translator.tokenizers)
    config = model.config
    assert isinstance(config, TransformerConfig)
    tokenizers = translator.tokenizers
    save_recipe(
        folder,
        config,
        preset="transformer",
        n_vocab=config.n_target_vocab,
        data={"direction": direction or translator.languages or UNKNOWN_LANGUAGES},
        text={"kind": tokenizers.target.kind, "shared": tokenizers.shared},
        decode={"beam": translator.beam},
    )
    tokenizers.save(folder.path)
    save_model(folder, config, model.weights)
    return model.notes


def _as_read(model: Imported, tokenizers: Tokenizers) -> Imported:
    """Two tokenizers mean two embeddings, so that training goes on as it does everywhere."""
    config = model.config
    assert isinstance(config, TransformerConfig)
    if tokenizers.shared or not config.shared_vocab:
        return model
    weights = {**model.weights, TARGET_TOKENS: model.weights[SOURCE_TOKENS].clone()}
    return replace(model, config=config.model_copy(update={"shared_vocab": False}), weights=weights)
