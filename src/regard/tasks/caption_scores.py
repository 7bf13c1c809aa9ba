"""How good captions are: beside references, whether they are true, and where each word looked.

What is true of a picture only a world knows: the grammar of ``scenes`` finds the claim of a caption
again and checks it against the scene. Where the model looked is asked of its own captions, at the
step that wrote a word, for words of colours and shapes that are about an object of the scene.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from regard.core.errors import RegardError
from regard.core.files import write_whole
from regard.data.picture_records import CaptionedPicture
from regard.data.worlds.scene_language import Caption, looked_for, spoken
from regard.data.worlds.scenes import SceneRecord
from regard.evaluation.captions import cider_each
from regard.evaluation.label_metrics import perplexity
from regard.evaluation.metrics import computed
from regard.evaluation.saliency import looking, pointing_accuracy
from regard.inspection.capture import CROSS, viewpoints, watch
from regard.text import words
from regard.text.tokenizer import Tokenizer
from regard.visual.gallery import GalleryItem, best_and_worst, gallery_page

TEST_METRICS = ("bleu", "cider", "rouge_l_coco", "meteor_stem")
Maps = NDArray[np.float32]


def caption_scores(
    run: Any, examples: Sequence[CaptionedPicture], said: Sequence[str]
) -> dict[str, Any]:
    """All scores of what a captioner said of pictures."""
    references = [list(one.captions) for one in examples]
    asked = run.recipe.train
    scores = computed((*TEST_METRICS, *asked.metrics, *asked.rewards), said, references)
    scores |= _likelihood(run, examples)
    claims = understood(examples, said, run.recipe.data.language)
    if claims is not None:
        scores["true_captions"] = share_true(examples, claims)
        scores |= looking_scores(run, examples, said, claims)
    return scores


def _likelihood(run: Any, examples: Sequence[CaptionedPicture]) -> dict[str, float]:
    """Loss, perplexity and accuracy a token of the references, the words before it being given."""
    judged = run.token_scores(examples, [one.captions for one in examples])
    n_tokens = sum(len(one.right) for one in judged)
    total = sum(float(one.log_probs.double().sum()) for one in judged)
    right = sum(int(one.right.sum()) for one in judged)
    known = {"loss": -total / n_tokens, "perplexity": perplexity(total, n_tokens)}
    return {**known, "accuracy": right / n_tokens}


GALLERY, SHOWN = "gallery.html", 6
"""A page beside the run, and how many of the best and of the worst captions are in it."""


def write_gallery(
    run: Any, examples: Sequence[CaptionedPicture], said: Sequence[str], split: str
) -> str:
    """The best and the worst captions by CIDEr, with where each word looked -> a note."""
    scores = cider_each(said, [list(one.captions) for one in examples])
    best, worst = (
        [_item(run, examples[i], said[i], scores[i]) for i in some]
        for some in best_and_worst(scores, SHOWN)
    )
    path = run.folder.path / GALLERY
    page = gallery_page(
        f"Captions of {split}: {run.folder.path.name}",
        best=best,
        worst=worst,
        score="CIDEr-D",
        about=f"{len(examples):,} pictures, described by {run.recipe.model.preset}.",
    )
    try:
        write_whole(path, page)
    except RegardError as error:  # somebody else's run can be scored, too
        return f"no {GALLERY}: {error}"
    return f"the best and the worst captions: {path}"


def _item(run: Any, example: CaptionedPicture, text: str, score: float) -> GalleryItem:
    look = run.explain(example, text)
    layers = look.attentions.get(CROSS, ())
    n = len(look.target_tokens) - 1  # the end token is no word
    maps = np.concatenate(layers).mean(axis=0)[:n] if layers else ()
    return GalleryItem(
        pixels=look.picture,
        caption=text,
        references=example.captions,
        score=score,
        words=look.target_tokens[:n] if layers else (),
        maps=[one.reshape(run.config.grid) for one in maps],
        gates=look.gates[:n] or None,
    )


# ------------------------------------------------------------------ truth


def understood(
    examples: Sequence[CaptionedPicture], said: Sequence[str], language: Any
) -> list[Caption | None] | None:
    """What each caption claims, None where it is no sentence; nothing if pictures are no scenes."""
    if not all(isinstance(one.picture, SceneRecord) for one in examples):
        return None
    pairs = zip(examples, said, strict=True)
    return [spoken(text, _scene(one).scene, language) for one, text in pairs]


def share_true(examples: Sequence[CaptionedPicture], claims: Sequence[Caption | None]) -> float:
    """The share of captions that are true of their picture; what is no sentence is not."""
    pairs = zip(examples, claims, strict=True)
    true = [said is not None and said.claim.is_true(_scene(one).scene) for one, said in pairs]
    return sum(true) / len(true)


# ------------------------------------------------------------------ where words looked


class SeenWord(NamedTuple):
    """A word that is about something in a picture."""

    example: int
    row: int
    """The token that begins it: its row of attention."""
    mask: NDArray[np.bool_]
    """(H, W): where the objects are."""


def seen_words(
    examples: Sequence[CaptionedPicture],
    claims: Sequence[Caption | None],
    tokenizer: Tokenizer,
    language: Any,
) -> Iterator[SeenWord]:
    """The words of colours and shapes that are about an object, where a caption is understood."""
    wanted = looked_for(language)
    for number, (example, caption) in enumerate(zip(examples, claims, strict=True)):
        if caption is None or not any(caption.about):
            continue
        begins: dict[int | None, int] = {}
        for row, place in enumerate(tokenizer.word_ids(caption.text)):
            begins.setdefault(place, row)
        masks = _scene(example).masks()
        said = zip(words.split(caption.text), caption.about, strict=True)
        for place, (word, about) in enumerate(said):
            if word in wanted and about:
                where = np.logical_or.reduce(masks[list(about)])
                yield SeenWord(number, begins[place], where)


def _scene(example: CaptionedPicture) -> SceneRecord:
    assert isinstance(example.picture, SceneRecord)
    return example.picture


def looking_scores(
    run: Any,
    examples: Sequence[CaptionedPicture],
    said: Sequence[str],
    claims: Sequence[Caption | None],
) -> dict[str, Any]:
    """Pointing accuracy and its like, of all heads and layers together, beside their baselines."""
    found = _watched(run, examples, said, claims)
    if found is None:
        return {}
    maps, masks = found
    return {"n_words": len(masks), **looking(maps.mean(axis=1), masks)}


def pointing_by_head(run: Any, examples: Sequence[CaptionedPicture]) -> dict[Hashable, float]:
    """How often the largest weight of each head is on the word's object, by the head's label."""
    said = run.caption(list(examples), beam=1)
    claims = understood(examples, said, run.recipe.data.language)
    found = None if claims is None else _watched(run, examples, said, claims)
    if found is None:
        return {}
    maps, masks = found
    n_heads = maps.shape[1] // n_layers(run)
    return {
        f"{CROSS} layer {i // n_heads} head {i % n_heads}": pointing_accuracy(maps[:, i], masks)
        for i in range(maps.shape[1])
    }


def n_layers(run: Any) -> int:
    """Layers of attention to the picture."""
    return sum(name == CROSS for (name, _), _ in viewpoints(run.model))


def _watched(
    run: Any,
    examples: Sequence[CaptionedPicture],
    said: Sequence[str],
    claims: Sequence[Caption | None],
) -> tuple[Maps, NDArray[np.bool_]] | None:
    """Of every such word: maps (n, layers · H, R, C) and masks (n, H, W); None if there are none.

    Masks are made as large as the grid's patches are together.
    """
    found = list(seen_words(examples, claims, run.tokenizer, run.recipe.data.language))
    if len(found) < 2 or not n_layers(run):
        return None
    rows, columns = run.config.grid
    first, maps = 0, []
    asked: dict[int, list[int]] = {}
    for word in found:
        asked.setdefault(word.example, []).append(word.row)
    for pixels, targets, _ in run.forced(examples, [[text] for text in said]):
        weights = _weights(run, pixels, targets)  # (B, layers · H, T, N)
        for i in range(len(pixels)):
            maps += [weights[i, :, row] for row in asked.get(first + i, ())]
        first += len(pixels)
    side = [-(-size // n) * n for size, n in zip(found[0].mask.shape, (rows, columns), strict=True)]
    masks = np.zeros((len(found), *side), bool)
    height, width = found[0].mask.shape
    masks[:, :height, :width] = [word.mask for word in found]
    return np.stack(maps).reshape(len(maps), -1, rows, columns), masks


@torch.inference_mode()
def _weights(run: Any, pixels: torch.Tensor, targets: torch.Tensor) -> Maps:
    with watch(run.model) as views:
        run.model(pixels, targets[:, :-1])
    layers = sorted((layer, view) for (name, layer), view in views.items() if name == CROSS)
    return np.concatenate([view.weights().float().cpu().numpy() for _, view in layers], axis=1)
