"""Models of others as runs: ``regard import``.

What a folder holds is told by its files, and each kind has one function that fills a run folder.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from regard.checkpoints.run_folder import RunFolder, save_model, save_settings
from regard.core.errors import CheckpointError, ConfigError
from regard.core.files import write_whole
from regard.core.registry import Registry
from regard.interop import naming
from regard.interop.bert import READING, check_pooling, max_tokens, read_bert
from regard.interop.ctranslate2_reading import MODEL as CTRANSLATE2_MODEL
from regard.interop.ctranslate2_reading import read_ctranslate2
from regard.interop.detr import read_detr
from regard.interop.folders import CONFIG, GENERATION, read_config, read_json, whole_folder
from regard.interop.gguf import read_gguf, read_gguf_tokenizer
from regard.interop.gpt2 import read_gpt2
from regard.interop.llama import read_llama
from regard.interop.marian import marian_numbering, read_marian
from regard.interop.naming import Imported
from regard.interop.vit import read_timm, read_vit, read_vit_pytorch
from regard.models.detection import DetectionConfig
from regard.models.settings import DecoderConfig, EncoderConfig, TransformerConfig
from regard.models.vision import VisionConfig
from regard.tasks.classification import Labels
from regard.tasks.opening import SHARED, SOURCE, TARGET, Tokenizers
from regard.tasks.recipe import recipe_from
from regard.text import pretrained
from regard.text.chat import TEMPLATE
from regard.text.pretrained import MARKS, PretrainedTokenizer
from regard.text.sentencepiece import read_sentencepieces, unigram
from regard.text.settings import N_BYTES
from regard.text.specials import BEGIN_ID, END_ID, PAD_ID, SPECIALS, UNKNOWN_ID, SpecialIds
from regard.text.tokenizer import Tokenizer, lookup_table

Notes = tuple[str, ...]  # what a user should know, a sentence each
Importer = Callable[[Path, RunFolder, str | None], Notes]
"""Source, the run folder to fill, and perhaps a translator's languages."""

IMPORTERS: Registry[Importer] = Registry("kind of model")
TRANSLATORS = ("marian", "ctranslate2")

TRAIN = {"max_steps": 1000, "lr": 1e-4, "warmup_steps": 100}

TASKS = {"none": "similarity", "masked": "masked", "classify": "classification", "spans": "answers"}
"""What an encoder is for, going by its head."""
NO_END = "it was to see an end token after each text (add_eos_token), which is not added here"

SPM = ("source.spm", "target.spm")
OUR_SPECIALS = SpecialIds(pad=PAD_ID, begin=BEGIN_ID, end=END_ID, unknown=UNKNOWN_ID)
PIECE_MARKERS = ("▁", "@@", "￭", "##", "Ġ")
"""What tokenizers put before or after pieces of words."""
SUPPORTED = (
    "supported are folders in the layout of Hugging Face (config.json with model_type "
    "marian, bert, gpt2, llama, vit or detr), timm folders of vit models, CTranslate2 folders "
    "(model.bin), .gguf files, and state dicts of vit-pytorch (.pt, .pth, .safetensors)"
)
UNUSED = "N/A"
"""What COCO's numbers without a category are called, eleven of them alike."""
STATE_DICTS = (".pt", ".pth", ".safetensors")
UNKNOWN_LANGUAGES = "und-und"  # ISO 639's code for a language that nobody told


def import_model(source: Path, out: Path, direction: str | None = None) -> Notes:
    """Write a run folder, new or empty, whole or not at all; -> what a user should know.

    ``direction`` are the languages of a translator, as ``de-en``, where its files do not say them.
    """
    kind = kind_of(source)
    write = IMPORTERS[kind]
    if direction is not None and kind not in TRANSLATORS:
        raise ConfigError(
            f"a model of the kind {kind} translates nothing: leave out --direction {direction}"
        )
    with whole_folder(out) as inside:
        return write(source, RunFolder(inside), direction)


def kind_of(source: Path) -> str:
    """Which kind of model a file or a folder is, going by names and by config.json."""
    if source.is_file():
        if source.suffix == ".gguf":
            return "gguf"
        if source.suffix in STATE_DICTS:
            return "vit-pytorch"
        raise ConfigError(f"{source} is a file; {SUPPORTED}")
    if not source.is_dir():
        raise CheckpointError(f"there is no {source} to import")
    if (source / CTRANSLATE2_MODEL).exists():
        return "ctranslate2"
    if not (source / CONFIG).exists():
        files = sorted(file.name for file in source.iterdir())
        found = ", ".join(files[:5]) + (", …" if len(files) > 5 else "") if files else "nothing"
        raise ConfigError(f"{source} holds {found}; {SUPPORTED}")
    said = read_config(source)
    kind = said.get("model_type", "timm" if "architecture" in said else None)
    if kind is None and "family" in said:
        raise ConfigError(f"{source} is a run folder already; use it as it is")
    if isinstance(kind, str) and kind in IMPORTERS:
        return kind
    raise ConfigError(f"{source / CONFIG} says model_type={kind!r}; {SUPPORTED}")


def _write_run(
    folder: RunFolder,
    model: Imported,
    *,
    task: str,
    preset: str,
    n_vocab: int | None = None,
    **sections: Any,
) -> Notes:
    """Write a model and the recipe that describes it; ``sections`` say what only its kind has.

    The training file is a name without a file: whoever trains on gives their own. A model of
    pictures has no vocabulary.
    """
    config = model.config
    unsaid = {*config.FROM_DATA, *config.idle}  # which a recipe that says them is refused for
    known = config.model_dump(exclude=unsaid, exclude_none=True)
    file = "train.txt" if task in ("language", "masked") else "train.tsv"
    least = N_BYTES + len(SPECIALS)  # what settings of pieces ask for
    asked = {
        "task": task,
        "model": {"preset": preset, **known},
        "train": TRAIN,
        **sections,
        "data": {"train": file, **sections.get("data", {})},
    }
    if n_vocab is not None:
        pieces = {"kind": "bpe", "vocab_size": max(n_vocab, least)}
        asked["text"] = {**pieces, **sections.get("text", {})}
    save_settings(folder, recipe_from(asked, "the imported run").model_dump(mode="json"))
    save_model(folder, config, model.weights)
    return model.notes


def _write_reader(
    folder: RunFolder, model: Imported, tokenizer: PretrainedTokenizer, task: str, preset: str
) -> Notes:
    """Fill an empty run folder with a model of one vocabulary."""
    config = model.config
    assert isinstance(config, EncoderConfig | DecoderConfig)
    if tokenizer.n_vocab > config.n_vocab:
        raise CheckpointError(
            f"the tokenizer has {tokenizer.n_vocab} tokens, but the model knows {config.n_vocab}: "
            "they do not belong together"
        )
    tokenizer.save(folder.path / SHARED)
    return _write_run(folder, model, task=task, preset=preset, n_vocab=config.n_vocab)


@IMPORTERS.add("bert")
def _bert(source: Path, folder: RunFolder, _direction: str | None) -> Notes:
    """A BERT-type folder."""
    model = read_bert(source)
    config = model.config
    assert isinstance(config, EncoderConfig)
    if config.head == "classify":
        _labels(read_config(source), config, source / CONFIG).save(folder.path)
    n = None
    if config.head == "none":
        check_pooling(source)
        n = max_tokens(source)
    if n is not None and n < config.max_len:
        note = f"it reads {n} of {config.max_len} tokens, as {READING} says"
        weights = {**model.weights, naming.POSITIONS: model.weights[naming.POSITIONS][:n].clone()}
        shorter = config.model_copy(update={"max_len": n})
        model = Imported(shorter, weights, (*model.notes, note))
    return _write_reader(folder, model, pretrained.word_pieces(source), TASKS[config.head], "bert")


@IMPORTERS.add("gguf")
def _gguf(source: Path, folder: RunFolder, _direction: str | None) -> Notes:
    """A GGUF file, with the tokenizer that it carries."""
    model, carried = read_gguf(source), read_gguf_tokenizer(source)
    if carried.kind != "gpt2":
        raise CheckpointError(
            f"{source} carries a tokenizer of the kind {carried.kind!r}; supported is 'gpt2', "
            "byte-level pieces"
        )
    ids = carried.special_ids
    end = ids.get("eos")
    if end is None:
        raise CheckpointError(f"{source} names no end token")
    marks = SpecialIds(ids.get("padding", end), ids.get("bos"), end, ids.get("unknown"))
    inner = pretrained.pieces_of(carried.tokens, carried.merges, carried.types, carried.before)
    if carried.adds_begin and marks.begin is not None:
        inner = pretrained.opened_with(inner, marks.begin)
    _keep_template(carried.chat_template, folder)
    notes = _write_reader(folder, model, PretrainedTokenizer(inner, marks), "language", "gpt")
    return (*notes, NO_END) if carried.adds_end else notes


def _language_model(
    read: Callable[[Path], Imported], source: Path, folder: RunFolder, _direction: str | None
) -> Notes:
    """A folder of a language model, with its tokenizer and its chat template."""
    model, tokenizer = read(source), pretrained.pieces_in_bytes(source, _ends(source))
    _keep_template(pretrained.published_template(source), folder)
    return _write_reader(folder, model, tokenizer, "language", "gpt")


IMPORTERS.add("gpt2")(partial(_language_model, read_gpt2))
IMPORTERS.add("llama")(partial(_language_model, read_llama))


def _ends(source: Path) -> list[int]:
    """All ids that end a text: of the model's description, and of how it is to write."""
    found: list[int] = []
    for path in (source / CONFIG, source / GENERATION):
        said = (read_json(path) if path.exists() else {}).get("eos_token_id")
        ends = said if isinstance(said, list) else [said] if said is not None else []
        if not all(type(one) is int for one in ends):
            raise CheckpointError(
                f"{path} must say eos_token_id as a number, or as several, found {said!r}"
            )
        found += ends
    return found


def _keep_template(template: str | None, folder: RunFolder) -> None:
    if template is not None:
        write_whole(folder.path / TEMPLATE, template)


def _labels(said: dict[str, Any], config: EncoderConfig, path: Path) -> Labels:
    """Names by number, as the folder has them; whether of pairs, no folder says."""
    names = said.get("id2label") or {}
    numbers = range(config.n_labels or 0)
    found = [str(names.get(str(i), f"LABEL_{i}")) for i in numbers]
    return replace(_unique(found, path), pairs=None if config.n_segments > 1 else False)


def _unique(names: Sequence[str], path: Path) -> Labels:
    """Labels of these names, of which none may come twice."""
    twice = [name for name, n in Counter(names).items() if n > 1]
    if twice:
        raise CheckpointError(
            f"{path} gives the same name to several labels in id2label: {', '.join(twice)}; "
            "give each its own"
        )
    return Labels(tuple(names), pairs=False)


def _vision(
    read: Callable[[Path], Imported], source: Path, folder: RunFolder, _direction: str | None
) -> Notes:
    """A Vision Transformer that labels pictures; classes without names are numbers."""
    model = read(source)
    config = model.config
    assert isinstance(config, VisionConfig)
    said = read_config(source) if source.is_dir() else {}
    _unique(_named(said, config.n_labels), source).save(folder.path)
    data = {"train": "train", "image_size": config.image_size, **model.data}
    return _write_run(folder, model, task="image_classification", preset="vit2021", data=data)


def _named(said: Mapping[str, Any], n: int) -> list[str]:
    """The names of n labels; those without one are numbers."""
    names = said.get("id2label") or dict(enumerate(said.get("label_names") or ()))
    found = {str(number): str(name) for number, name in names.items()}
    return [found.get(str(i), str(i)) for i in range(n)]


@IMPORTERS.add("detr")
def _detr(source: Path, folder: RunFolder, _direction: str | None) -> Notes:
    """A detector; numbers that stand for nothing are all called N/A, and here N/A and the number.

    Its pictures keep their proportions, so that it can be used but not trained on: with another
    ``data.fit`` it can.
    """
    model = read_detr(source)
    config = model.config
    assert isinstance(config, DetectionConfig)
    names = _named(read_config(source), config.n_labels)
    labels = [f"{name} {i}" if name == UNUSED else name for i, name in enumerate(names)]
    _unique(labels, source).save(folder.path)
    data = {"train": "boxes.tsv", **model.data}
    return _write_run(folder, model, task="detection", preset="detr2020", data=data)


IMPORTERS.add("vit")(partial(_vision, read_vit))
IMPORTERS.add("timm")(partial(_vision, read_timm))
IMPORTERS.add("vit-pytorch")(partial(_vision, read_vit_pytorch))


@IMPORTERS.add("marian")
def _marian(source: Path, folder: RunFolder, direction: str | None) -> Notes:
    """With source.spm, target.spm and vocab.json, or our own files."""
    model = read_marian(source)
    said = read_json(path) if (path := source / "tokenizer_config.json").exists() else {}
    codes = [said.get("source_lang"), said.get("target_lang")]
    if direction is None and all(codes):
        direction = "-".join(map(str, codes))
    tokenizers = _our_own(source) or tokenizers_beside(source, *_marian_tokens(source))
    return _write_translator(folder, model, tokenizers, direction, _beam(source / GENERATION))


@IMPORTERS.add("ctranslate2")
def _ctranslate2(source: Path, folder: RunFolder, direction: str | None) -> Notes:
    """CTranslate2 reads tokens: the tokenizers are looked for beside its files."""
    model, *tokens = read_ctranslate2(source)
    tokenizers = _our_own(source) or tokenizers_beside(source, *tokens)
    return _write_translator(folder, model, tokenizers, direction)


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
    theirs = zip((source, target), (first, second), strict=True)
    ours = [side.tokens(_by_id(ids, len(side.rows))) for side, ids in theirs]
    return ours[0], ours[1]


def _by_id(ids: dict[str, int], n: int) -> list[str]:
    """Tokens by id; rows without one get a name that no text has."""
    tokens = [f"<unused{number}>" for number in range(n)]
    for token, number in ids.items():
        if not isinstance(number, int) or not 0 <= number < n:
            raise CheckpointError(f"vocab.json says {token!r} is {number!r}, of {n} rows")
        tokens[number] = token
    return tokens


def _our_own(folder: Path) -> Tokenizers | None:
    """Tokenizers that Regard once exported."""
    read = PretrainedTokenizer.load if (folder / MARKS).exists() else Tokenizer.load
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
        return Tokenizers(_lookup_tokenizer(source, folder), _lookup_tokenizer(target, folder))
    first, second = (
        PretrainedTokenizer(unigram(read_sentencepieces(file), tokens), OUR_SPECIALS)
        for file, tokens in zip(files, (source, target), strict=True)
    )
    same = list(source) == list(target) and files[0].read_bytes() == files[1].read_bytes()
    return Tokenizers(first, first if same else second)


def _lookup_tokenizer(tokens: Sequence[str], folder: Path) -> Tokenizer:
    texts = tokens[len(SPECIALS) :]
    if all(len(token) == 1 for token in texts):
        return Tokenizer(lookup_table("char", tokens))
    if any(token.startswith(PIECE_MARKERS) or token.endswith(PIECE_MARKERS) for token in texts):
        raise CheckpointError(
            f"{folder} has tokens that are pieces of words, and nothing that makes them of text; "
            f"copy {SPM[0]} and {SPM[1]} into it"
        )
    return Tokenizer(lookup_table("word", tokens))


def _write_translator(
    folder: RunFolder, model: Imported, tokenizers: Tokenizers, direction: str | None, beam: int = 1
) -> Notes:
    """Fill an empty run folder."""
    config = model.config
    assert isinstance(config, TransformerConfig)
    if config.shared_vocab and not tokenizers.shared:
        # Two tokenizers mean two embeddings, so that training goes on as it does everywhere.
        tokens = model.weights[naming.SOURCE_TOKENS].clone()
        config = config.model_copy(update={"shared_vocab": False})
        model = Imported(config, {**model.weights, naming.TARGET_TOKENS: tokens}, model.notes)
    tokenizers.save(folder.path)
    return _write_run(
        folder,
        model,
        task="translation",
        preset="transformer",
        n_vocab=config.n_target_vocab,
        data={"direction": direction or UNKNOWN_LANGUAGES},
        text={"kind": tokenizers.target.kind, "shared": tokenizers.shared},
        decode={"beam": beam},
    )
