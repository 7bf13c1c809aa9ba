"""The border to CTranslate2: ids and hypotheses on our side, tokens and scores on theirs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch

from regard.core.errors import ConfigError
from regard.decoding.hypothesis import Hypothesis
from regard.decoding.settings import DecodeSettings
from regard.interop.ctranslate2_model import library
from regard.text.specials import BEGIN, END_ID, PAD

Ids = Sequence[int]


@dataclass(frozen=True, slots=True)
class Translator:
    """A ``ctranslate2.Translator`` that takes ids and gives hypotheses."""

    inner: Any
    source_tokens: Sequence[str]
    target_tokens: Sequence[str]
    target_ids: Mapping[str, int]

    @classmethod
    def load(cls, folder: Path, device: torch.device, compute_type: str) -> Self:
        """Of a folder that was exported; it may be deleted afterwards."""
        try:
            inner = library().Translator(
                str(folder),
                device=device.type,
                device_index=device.index or 0,
                compute_type=compute_type,
                inter_threads=1,
                intra_threads=torch.get_num_threads(),
            )
        except (ValueError, RuntimeError) as error:
            reason = str(error).split("\n")[0]
            raise ConfigError(
                f"CTranslate2 cannot compute in {compute_type} on {device}: {reason}"
            ) from None
        source, target = _vocabulary(folder, "source"), _vocabulary(folder, "target")
        return cls(inner, source, target, {token: i for i, token in enumerate(target)})

    def search(
        self,
        sources: Sequence[Ids],
        settings: DecodeSettings,
        *,
        limit: int,
        n_best: int,
        patience: int = 1,
        silent: bool = False,
        batch_tokens: int,
    ) -> list[list[Hypothesis]]:
        """For each source up to ``n_best`` hypotheses, in no order.

        A beam search of K beams ends when K · ``patience`` hypotheses have. If padding and the
        begin token are to be ``silent``, their probability is given to the other tokens.
        """
        beam = settings.beam
        alpha = settings.length_penalty if beam > 1 else 0.0
        results = self.inner.translate_batch(
            [self._spelled(source) for source in sources],
            beam_size=beam,
            patience=patience,
            num_hypotheses=n_best,
            length_penalty=alpha,
            suppress_sequences=[[PAD], [BEGIN]] if silent else None,
            max_batch_size=max(1, batch_tokens // beam),
            batch_type="tokens",
            max_input_length=0,
            max_decoding_length=limit,
            min_decoding_length=0,
            return_scores=True,
            return_end_token=True,
        )
        return [self._read(result, alpha, settings.length_penalty) for result in results]

    def judged(
        self, source: Ids, hypotheses: Sequence[Hypothesis], length_penalty: float
    ) -> list[Hypothesis]:
        """The same targets with the log-probability that the whole model gives them."""
        targets = [[*one.ids, END_ID] if one.finished else [*one.ids] for one in hypotheses]
        results = self.inner.score_batch(
            [self._spelled(source)] * len(hypotheses),
            [[self.target_tokens[i] for i in one.ids] for one in hypotheses],
            max_input_length=0,
        )
        return [
            Hypothesis.read(ids, sum(result.log_probs[: len(ids)]), length_penalty)
            for ids, result in zip(targets, results, strict=True)
        ]

    def _spelled(self, source: Ids) -> list[str]:
        return [self.source_tokens[i] for i in source]

    def _read(self, result: Any, alpha: float, length_penalty: float) -> list[Hypothesis]:
        """CTranslate2 divides a log-probability by n^α, where n counts the end token too."""
        read = []
        for tokens, score in zip(result.hypotheses, result.scores, strict=True):
            ids = [self.target_ids[token] for token in tokens]
            read.append(Hypothesis.read(ids, score * len(ids) ** alpha, length_penalty))
        return read


def _vocabulary(folder: Path, side: str) -> list[str]:
    """The tokens of a side by id, as CTranslate2 wrote them."""
    own = folder / f"{side}_vocabulary.json"
    path = own if own.exists() else folder / "shared_vocabulary.json"
    tokens: list[str] = json.loads(path.read_text(encoding="utf-8"))
    return tokens
