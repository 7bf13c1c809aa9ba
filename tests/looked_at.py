"""Runs of encoders and of a language model that nobody trained, on the letters a to h."""

from pathlib import Path

import torch
from language_models import LLAMA, decoder_config, stirred
from letters import LETTERS

from regard.checkpoints.run_folder import RunFolder, save_model, save_settings
from regard.data.settings import DataSettings
from regard.models.decoder import LanguageModel
from regard.models.encoder import Encoder
from regard.models.settings import EncoderConfig
from regard.tasks.answers import Answerer
from regard.tasks.classification import Classifier, Labels
from regard.tasks.generation import framing_for
from regard.tasks.masked import Filler
from regard.tasks.opening import SHARED
from regard.tasks.recipe import recipe_from, remember_data
from regard.tasks.similarity import Embedder
from regard.tasks.writer import Writer
from regard.text.settings import TextSettings
from regard.text.tokenizer import Tokenizer

CPU = torch.device("cpu")
NAMES = ("good", "bad", "so so")
SIZES = {"d_model": 12, "n_heads": 3, "n_layers": 2, "d_ff": 20, "dropout": 0.0, "max_len": 16}
HEADS = {
    "classification": {"head": "classify", "n_labels": len(NAMES)},
    "masked": {"head": "masked"},
    "similarity": {"head": "none"},
    "answers": {"head": "spans"},
}
LABELLED = "a b c\tgood\nb d\tbad\na a h\tso so\nc d e f\tgood\n"


def words(masking=True):
    return Tokenizer.train([" ".join(LETTERS)], TextSettings(kind="word"), masking=masking)


def recipe(task, data=None):
    """With files of a folder; elsewhere files of such names need not be there."""
    preset, file = ("gpt", "train.jsonl") if task == "language" else ("bert", "train.tsv")
    files = {"train": file, "valid": file, "folder": None if data is None else str(data)}
    model = {"preset": preset, "d_model": 24 if task == "language" else 12}
    return recipe_from({"task": task, "data": files, "model": model, "train": {"max_steps": 1}})


def encoder_run(task, *, pairs=False, folder="nowhere", data=None, **changes):
    """An encoder with random weights; no parameter is 0 or 1."""
    tokenizer = words()
    torch.manual_seed(2)
    config = EncoderConfig(n_vocab=tokenizer.n_vocab, **{**SIZES, **HEADS[task], **changes})
    model = Encoder(config).eval()
    stirred(model, 0.3)
    parts = RunFolder(Path(folder)), recipe(task, data), tokenizer, model, CPU
    kinds = {"masked": Filler, "similarity": Embedder, "answers": Answerer}
    if task == "classification":
        return Classifier(*parts, Labels(NAMES, pairs))
    return kinds[task](*parts)


def writer_run(folder="nowhere", data=None, **changes):
    """LLAMA's settings, with two heads on each key, and positions that are told by turning."""
    tokenizer = words(masking=False)
    torch.manual_seed(3)
    settings = {**LLAMA, "n_kv_heads": 2, "n_vocab": tokenizer.n_vocab, **changes}
    model = LanguageModel(decoder_config(**settings)).eval()
    stirred(model, 0.3)
    framing = framing_for(tokenizer, DataSettings(train="train.jsonl"))
    return Writer(RunFolder(Path(folder)), recipe("language", data), framing, model, CPU)


def saved(run):
    """Write what a run consists of to its folder; -> the folder."""
    folder = run.folder
    folder.path.mkdir(exist_ok=True)
    save_settings(folder, run.recipe.model_dump(mode="json"))
    save_model(folder, run.model.config, dict(run.model.named_parameters()))
    run.tokenizer.save(folder.path / SHARED)
    if isinstance(run, Classifier):
        run.labels.save(folder.path)
    remember_data(folder.path, run.recipe.data)
    return folder.path
