"""Scores of captions beside the public implementations."""

import random

import numpy as np
import pytest

from regard.data.worlds.scenes import build_scenes
from regard.evaluation.captions import cider, meteor_stem, rouge_l_coco, words_of


@pytest.fixture(scope="module")
def captions():
    """Captions of which every other one is another picture's, and four references each."""
    draw = random.Random(0)
    records = build_scenes(n_train=1, n_test=60)["test"]
    references = [[one.text for one in record.captions["en"][1:]] for record in records]
    own = [record.captions["en"][0].text for record in records]
    said = [one if i % 2 else draw.choice(references[i - 1]) for i, one in enumerate(own)]
    return said, references


def by_number(captions):
    said, references = captions
    as_words = [[" ".join(words_of(one)) for one in some] for some in references]
    return dict(enumerate(as_words)), {i: [" ".join(words_of(s))] for i, s in enumerate(said)}


def test_cider_equals_pycocoevalcap(captions):
    public = pytest.importorskip("pycocoevalcap.cider.cider")
    expected, _ = public.Cider().compute_score(*by_number(captions))
    assert cider(*captions) == pytest.approx(expected, rel=1e-9)


def test_rouge_equals_pycocoevalcap(captions):
    public = pytest.importorskip("pycocoevalcap.rouge.rouge")
    expected, _ = public.Rouge().compute_score(*by_number(captions))
    assert rouge_l_coco(*captions) == pytest.approx(100 * expected, rel=1e-9)


def test_meteor_equals_nltk_without_synonyms(captions):
    public = pytest.importorskip("nltk.translate.meteor_score")
    stemmer = pytest.importorskip("nltk.stem.snowball").SnowballStemmer("english")

    class NoSynonyms:
        def synsets(self, *_, **__):
            return []

    expected = [
        public.meteor_score(
            [words_of(one) for one in some], words_of(said), wordnet=NoSynonyms(), stemmer=stemmer
        )
        for said, some in zip(*captions, strict=True)
    ]
    assert meteor_stem(*captions) == pytest.approx(100 * np.mean(expected), rel=1e-9)
