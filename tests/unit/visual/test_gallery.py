"""The best and the worst captions on a page, with where the model looked."""

import re

import numpy as np
import pytest

from regard.visual.gallery import GalleryItem, best_and_worst, gallery_page

EVIL = "<img src=x onerror=alert(1)>"


def item(score, caption="a star", **more):
    pixels = np.full((4, 4, 3), 90, np.uint8)
    fields = {"words": caption.split(), "maps": [np.eye(2)] * len(caption.split()), **more}
    return GalleryItem(
        pixels=pixels, caption=caption, references=("one star", EVIL), score=score, **fields
    )


@pytest.mark.parametrize("n_scores", range(7))
def test_the_best_and_the_worst_share_nothing(n_scores):
    scores = np.random.default_rng(n_scores).random(n_scores).tolist()
    best, worst = best_and_worst(scores, 3)
    assert len(best) == min(3, n_scores)
    assert len(worst) == min(3, n_scores - len(best))
    assert not {*best} & {*worst}
    assert [scores[i] for i in best] == sorted(scores, reverse=True)[: len(best)]
    assert [scores[i] for i in worst] == sorted(scores)[: len(worst)]


def test_every_caption_has_its_strip_its_score_and_its_references():
    best = [item(0.9, gates=[0.5, 0.25]), item(0.8, "a red circle")]
    found = gallery_page("Captions", best=best, worst=[item(0.1, "a cat")], score="CIDEr-D")
    assert found.index("The best") < found.index("a red circle") < found.index("The worst")
    assert re.findall(r"CIDEr-D ([\d.]+)", found) == ["0.900", "0.800", "0.100"]
    assert found.count("<svg") == 3
    assert found.count("<image") == 3 + 2 * (2 + 3 + 2)
    assert found.count("β 0.500") == found.count("β 0.250") == 1
    assert found.count("one star") == 3


def test_a_model_that_looks_nowhere_shows_the_picture_alone():
    found = gallery_page(
        "t", best=[item(1.0, words=(), maps=())], worst=[], score="BLEU", about="of the test set"
    )
    assert found.count("<img") == 1
    assert "<svg" not in found
    assert "The worst" not in found
    assert "<p>of the test set</p>" in found


def test_what_people_and_models_wrote_stays_text():
    found = gallery_page(EVIL, best=[item(1.0, EVIL)], worst=[item(0.0, "")], score="x")
    assert "<img src=x" not in found
    assert "(nothing)" in found
    assert "default-src 'none'" in found
    assert "<script" not in found
