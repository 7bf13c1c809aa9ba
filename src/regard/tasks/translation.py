"""Translation: a sentence is read, and its like in another language written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from typing_extensions import override

from regard.checkpoints.run_folder import load_scores
from regard.core.errors import CheckpointError, ConfigError
from regard.data.corpora import located, read_pairs
from regard.data.pairs import Pair
from regard.data.settings import DataSettings
from regard.models.base import SequenceConfig
from regard.runs.data import load_data
from regard.runs.evaluate import evaluate_pairs, evaluate_split
from regard.runs.kinds.translator import Run, load_translator
from regard.runs.looking.look import Look
from regard.runs.tasks.translation import PreparedTranslation, prepare_translation
from regard.tasks.base import TASKS, TOKEN, Evaluation, Form
from regard.tasks.encoding import Example, TextTask
from regard.tasks.verbs import TRANSLATE, check_side
from regard.text.tokenizer import Tokenizer

PRONOUNS = {"en": ("it", "they", "he", "she"), "fr": ("il", "elle", "ils", "elles")}
"""Words of the built-in world that stand for others."""
_LABEL = re.compile(r"(?P<name>\S+) layer (?P<layer>\d+) (?:head (?P<head>\d+)|mean)")
LECTURES = {
    "en": (
        "the animal did not cross the street because it was too tired",
        "the animal did not cross the street because it was too wide",
        "john loves mary",
        "jane visits africa in september",
        "i am a student",
    ),
    "fr": (
        "l'animal n'a pas traversé la rue parce qu'il était trop fatigué",
        "l'animal n'a pas traversé la rue parce qu'elle était trop large",
        "john aime mary",
        "jane visite l'afrique en septembre",
        "je suis étudiant",
    ),
}


class Translation(TextTask):
    """Pairs of sentences, and a model that reads one and writes the other."""

    name, unit = "translation", TOKEN
    verbs = (TRANSLATE,)
    heeds = frozenset(
        {
            "data.columns",
            "data.long_lines",
            "text.shared",
            "text.bpe_dropout",
            "train.label_smoothing",
            "train.teacher_forcing",
            "decode.beam",
            "decode.length_penalty",
            "decode.precision",
            "decode.replace_unknown",
            "decode.max_len",
        }
    )
    smallest: ClassVar[Mapping[str, Any]] = {
        "n_source_vocab": 9,
        "n_target_vocab": 9,
        "shared_vocab": True,
    }
    attends = "transformer or luong2015"
    evaluation_options = frozenset({"beam"})

    @property
    @override
    def config(self) -> type[SequenceConfig]:
        return SequenceConfig

    @override
    def prepare(self, *args: Any, **more: Any) -> PreparedTranslation:
        return prepare_translation(*args, **more)

    @override
    def load(self, path: str | Path, *, device: str | None = None) -> Run:
        return load_translator(path, device=device)

    @override
    def evaluate(self, run: Run, split: str | None = None, **options: Any) -> Evaluation:
        self.check_options(options)
        data = load_data(run.recipe.data)
        return evaluate_split(run, data, split or "test", **options)

    @override
    def score_file(self, run: Run, path: Path, **options: Any) -> Evaluation:
        self.check_options(options)
        return self.score_files(run, str(path), path.name, **options)

    def score_files(self, run: Run, files: Any, name: str, **options: Any) -> Evaluation:
        """Scores on a file of pairs, or on two files of sources and references."""
        corpus = read_pairs(files, run.recipe.data.columns if isinstance(files, str) else None)
        return evaluate_pairs(run, corpus.pairs, split=name, **options)

    @override
    def explain(
        self,
        run: Run,
        source: str,
        *,
        other: str | None = None,
        target: str | None = None,
        max_tokens: int | None = None,
        edit: Any = (),
    ) -> Look:
        if other is not None or max_tokens is not None:
            super().explain(run, source, other=other, max_tokens=max_tokens)
        return run.explain(source, target, edit)

    @override
    def check_look(
        self,
        run: Run,
        at_most: int,
        source: str,
        *,
        other: str | None = None,
        target: str | None = None,
    ) -> None:
        for tokenizer, text in zip(self.tokenizers(run), (source, target or ""), strict=True):
            check_side(run, at_most, tokenizer, text, able="can be looked at")

    @override
    def given_subject(self, run: Run, texts: Sequence[str], name: str, n: int) -> Any:
        raise ConfigError("heads of a translator are measured on pairs: choose a split of its data")

    @override
    def examples(self, run: Run) -> list[str]:
        data = run.recipe.data
        if data.world == "sentences":
            return list(LECTURES[data.direction.split("-")[0]])
        return [one["text"] for one in super().examples(run)]

    @override
    def held_out(self, run: Run) -> Iterator[Example]:
        sources = (pair.source for pair in _held_out(run.recipe.data))
        return ({"text": text} for text in sources if text.strip() and run.fits(text))

    @override
    def form(self, run: Run) -> Form:
        source, target = run.recipe.data.direction.split("-")
        return Form(
            label=f"A sentence ({source})",
            go="Translate",
            answer="Translation",
            hint="Each line is a sentence.",
            about=f"{source} → {target}",
            stands="The translation stands.",
            language=target,
            views=("lines", "matrix", "grid", "rollout", "beam", "heads"),
            edits=("ablate", "force", "temperature", "no_positions", "swap", "force_token"),
            view="translation",
        )

    @override
    def tokenizers(self, run: Run) -> tuple[Tokenizer, Tokenizer]:
        return run.tokenizers.source, run.tokenizers.target

    @override
    def info(self, run: Run) -> dict[str, Any]:
        return {"antecedents": antecedents(run)}


def _held_out(data: DataSettings) -> Sequence[Pair]:
    """Pairs that nothing was learned from, where there are some; and no larger file than needed."""
    if data.world is not None:
        return load_data(data).splits["valid"]
    files = data.valid or data.test or data.train
    if not files:
        return ()
    return read_pairs(located({"one": files}, data.folder)["one"], data.columns).pairs


def antecedents(run: Run) -> dict[str, Any] | None:
    """The head that finds antecedents best, as the run's scores tell: chosen on ``valid``.

    ``share`` is how often it finds them on ``test``; ``head`` is None for the mean of a layer.
    """
    test = _test_scores(run)
    place = _LABEL.fullmatch(str(test.get("antecedent_accuracy_by")))
    pronouns = PRONOUNS.get(run.recipe.data.direction.split("-")[0])
    if place is None or pronouns is None or run.recipe.data.world != "sentences":
        return None
    return {
        "name": place["name"],
        "layer": int(place["layer"]),
        "head": None if place["head"] is None else int(place["head"]),
        "share": test.get("antecedent_accuracy"),
        "shuffled": test.get("antecedent_accuracy_shuffled"),
        "pronouns": pronouns,
    }


def _test_scores(run: Run) -> Mapping[str, Any]:
    """What the run scored on ``test``; nothing where it has not come to its end."""
    try:
        scores = load_scores(run.folder).get("scores", {})
    except CheckpointError:
        return {}
    test = scores.get("test", {}) if isinstance(scores, Mapping) else {}
    return test if isinstance(test, Mapping) else {}


TASKS.add("translation")(Translation())
