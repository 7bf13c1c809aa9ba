"""What the examples of ``--help`` speak of: a tiny run of each task, a recipe, texts, a picture."""

import yaml
from chats import byte_tokenizer, chat_folder
from detectors import recipe as detection_recipe
from detectors import write_shapes
from language_models import language_model, weights_of
from picture_runs import captioning_run, png, scene
from summaries import short_run as summary_run
from text_runs import short_run as text_run
from vector_runs import vectors_run

from regard.interop.gpt2 import write_gpt2
from regard.runs.train import train
from regard.tasks.recipe import recipe_from

QUICK = {"max_steps": 4, "warmup_steps": 1, "eval_every": 4, "save_every": 4}


def translator(settings):
    """Thirty steps of letters, of which five checkpoints are kept -> what trains it."""

    def made(folder):
        keeping = {**settings["train"], "keep": 5, "save_every": 6}
        train(recipe_from({**settings, "train": keeping}), folder / "run")
        return folder / "run"

    return made


def detector(folder):
    """Finds discs and squares."""
    train(detection_recipe(write_shapes(folder), train=QUICK), folder / "run", device="cpu")
    return folder / "run"


def answerer(folder):
    """Says how many squares there are."""
    rows = ["image\tquestion\tanswer"]
    for i in range(16):
        (folder / f"{i}.png").write_bytes(png(scene(i, 1 + i % 2)))
        rows.append(f"{i}.png\thow many?\t{('one', 'two')[i % 2]}")
    (folder / "train.tsv").write_text("\n".join(rows) + "\n")
    asked = {
        "task": "visual_questions",
        "data": {"folder": str(folder), "train": "train.tsv", "hold_out": 4},
        "text": {"kind": "word", "lowercase": True},
        "model": {"preset": "san2016", "d_model": 24, "max_len": 16},
        "train": {**QUICK, "batch_size": 4},
    }
    train(recipe_from(asked), folder / "run")
    return folder / "run"


def runs(settings):
    """Verb -> what makes the run that its examples need; other verbs take that of ``translate``."""
    texts = {"generate": "language", "classify": "classification", "answer": "answers"}
    texts |= {"embed": "similarity", "fill": "masked"}
    return {
        **{verb: lambda folder, kind=kind: text_run(kind, folder) for verb, kind in texts.items()},
        "translate": translator(settings),
        "summarize": summary_run,
        "neighbours": vectors_run,
        "caption": lambda folder: captioning_run(folder, train=QUICK),
        "ask": answerer,
        "detect": detector,
        "chat": chat_folder,
    }


def write_inputs(folder, settings):
    """Files that the examples name, in the folder in which they are typed."""
    few = {**settings, "train": {**settings["train"], **QUICK}}
    (folder / "mine.yaml").write_text(yaml.safe_dump(few))
    (folder / "report.txt").write_text("a b c d e f\n")
    (folder / "photo.png").write_bytes(png(scene()))
    for name in ("lines.txt", "lines.en", "lines.fr"):
        (folder / name).write_text("a b\n")
    write_downloaded(folder / "downloaded")


def write_downloaded(folder):
    """Weights of others, as they are fetched from a hub."""
    folder.mkdir()
    inner = byte_tokenizer()
    model = language_model(n_vocab=inner.get_vocab_size(), activation="gelu_tanh")
    write_gpt2(model.config, weights_of(model), folder)
    inner.save(str(folder / "tokenizer.json"))
    (folder / "special_tokens_map.json").write_text('{"eos_token": "<e>", "bos_token": "<e>"}')
