"""One source: its target forced in part, written on, judged; the search for it as a tree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.core.errors import ConfigError, DataError
from regard.core.numbers import counted, mentioned
from regard.core.registry import did_you_mean
from regard.decoding.beam import beam_search
from regard.decoding.settings import DecodeSettings
from regard.decoding.trace import Node, trace
from regard.inspection.records import Record, recorded_pair, records
from regard.models.base import SequenceModel
from regard.tasks.edits import AnyEdit, forced_tokens, of_model
from regard.tasks.importance import ForcedAnswer, copies_of, shares_of
from regard.tasks.look import Written, written_as
from regard.text.specials import BEGIN, BEGIN_ID, END, END_ID, PAD
from regard.text.tokenizer import Tokenizer
from regard.visual.tree import tree_html, tree_text


@dataclass(frozen=True, slots=True)
class Tree:
    """Every hypothesis that was looked at: node i is ``nodes[i]`` and says ``tokens[i]``."""

    n_beams: int
    nodes: tuple[Node, ...]
    tokens: tuple[str, ...]

    @property
    def best(self) -> tuple[str, ...]:
        """The tokens of the hypothesis that won."""
        return self.path(next(node.id for node in self.nodes if node.state == "best"))

    def path(self, node: int) -> tuple[str, ...]:
        """The tokens up to a node, without the begin token: a prefix to continue from."""
        return tuple(self.tokens[one.id] for one in self._up_to(node))

    def longest(self) -> tuple[int, ...]:
        """The ids of the longest hypothesis before its last token: all that a decoder has read."""
        last = max(self.nodes, key=lambda node: node.step).parent
        return tuple(one.token_id for one in self._up_to(last))

    def _up_to(self, node: int | None) -> list[Node]:
        """The nodes from the first token to this one."""
        found: list[Node] = []
        while node:  # 0 is the begin token
            found.append(self.nodes[node])
            node = self.nodes[node].parent
        return found[::-1]

    def __repr__(self) -> str:
        size = f"{counted(self.n_beams, 'beam')}, {counted(len(self.nodes), 'node')}"
        return f"<Tree of {size}: best is {mentioned(' '.join(self.best))}>"

    def __str__(self) -> str:
        return tree_text(self.as_json()).rstrip("\n")

    def _repr_html_(self) -> str:
        return tree_html(self.as_json())

    def as_json(self) -> dict[str, Any]:
        """Plain data, as pictures and the page take it."""
        return {
            "n_beams": self.n_beams,
            "nodes": [
                {
                    "id": node.id,
                    "parent": node.parent,
                    "step": node.step,
                    "token": token,
                    "log_prob": node.log_prob,
                    "score": node.score,
                    "state": node.state,
                    "why": node.why,
                }
                for node, token in zip(self.nodes, self.tokens, strict=True)
            ],
        }


@dataclass(frozen=True, slots=True)
class OneSource:
    """One source, whatever it is, and the model that is to write its target."""

    model: SequenceModel
    source: Tensor
    """(1, …)"""
    limit: int
    """How long its target may become, end token included."""
    words: Tokenizer
    """Those of the target."""
    settings: DecodeSettings

    def forced(self, written: Sequence[int], edits: Sequence[AnyEdit]) -> list[int]:
        """What is written once every forced token stands where it should."""
        wrong = "the target has tokens 0 to {}, the last of which ends it"
        return with_forced(written, edits, self.words, self.continued, wrong)

    def continued(self, prefix: Sequence[int]) -> list[int]:
        """A target that begins with these ids, written on greedily; the end token is left out."""
        source, limits = self._limited(at_least=len(prefix))
        ((best,),) = beam_search(self.model, source, limits=limits, n_beams=1, prefixes=[prefix])
        return list(best.ids)

    def begun(
        self, prefix: Sequence[int], edits: Sequence[AnyEdit], own: Callable[[], Sequence[int]]
    ) -> list[int]:
        """What a search is given to begin with: the prefix, and all up to the last forced token.

        ``own`` is what the model writes by itself, where there is no prefix. Where the end is
        forced, the end token is the last that is given.
        """
        tokens = forced_tokens(edits)
        for edit in tokens:
            (said,) = token_ids([edit.token], self.words, "force_token.token")
            if 0 <= edit.position < len(prefix) and prefix[edit.position] != said:
                (other,) = self.words.tokens([prefix[edit.position]])
                raise ConfigError(
                    f"force_token: the token at position {edit.position} is to be {edit.token!r}, "
                    f"but the prefix has {other!r} there; change one of them"
                )
        if all(0 <= edit.position < len(prefix) for edit in tokens):
            return list(prefix)
        written = self.forced(self.continued(prefix) if prefix else own(), edits)
        last = max(edit.position for edit in tokens)
        return [*written, END_ID][: max(len(prefix), last + 1)]

    def tree(self, n_beams: int, given: Sequence[int]) -> Tree:
        """The search for a target that begins with the given ids."""
        ids, limits = self._limited(at_least=len(given) + 1)
        penalty = self.settings.length_penalty
        nodes = trace(
            self.model, ids, limits=limits, n_beams=n_beams, length_penalty=penalty, prefix=given
        )
        return Tree(n_beams, nodes, tuple(self.words.tokens(node.token_id for node in nodes)))

    def records(self, written: Sequence[int]) -> dict[str, tuple[Record, ...]]:
        """What every attention does while the source is read and the target written."""
        return records(self.model, self.source, self._read_target(written))

    def looked_at(self, written: Sequence[int]) -> tuple[Written, dict[str, tuple[Record, ...]]]:
        """How probable every written token is, the end token being the last, and the records."""
        logits, found = recorded_pair(self.model, self.source, self._read_target(written))
        return written_as(logits, [*written, END_ID], self.words), found

    def answer(self, written: Sequence[int], edits: Sequence[AnyEdit]) -> ForcedAnswer:
        """The source with what was written, its end token included."""
        target, said = self._read_target(written), torch.tensor([*written, END_ID])
        ids, width = said.to(self.source.device), self.model.config.n_target_vocab

        def judge(n: int) -> Tensor:
            return shares_of(self.model(copies_of(self.source, n), copies_of(target, n)), ids)

        tokens = tuple(self.words.tokens([*written, END_ID]))
        return ForcedAnswer(self.model, tokens, judge, len(ids) * width, of_model(edits))

    def _read_target(self, written: Sequence[int]) -> Tensor:
        """(1, T): what the decoder reads, from the begin token on."""
        return torch.tensor([[BEGIN_ID, *written]], device=self.source.device)

    def _limited(self, at_least: int) -> tuple[Tensor, Tensor]:
        """The source, and how long its target may be (1,): no less than is given of it."""
        limits = torch.tensor([max(self.limit, at_least)], device=self.source.device)
        return self.source, limits


def with_forced(
    written: Sequence[int],
    edits: Sequence[AnyEdit],
    tokenizer: Tokenizer,
    continued: Callable[[Sequence[int]], list[int]],
    wrong: str,
) -> list[int]:
    """What is written once every forced token stands where it should, the first one first.

    After each, a text is ``continued``; ``wrong`` says where one may stand, given their number.
    """
    found = list(written)
    for edit in forced_tokens(edits):
        if not 0 <= edit.position <= len(found):
            where = wrong.format(len(found))
            raise ConfigError(f"force_token.position: {where}, not {edit.position}")
        (said,) = token_ids([edit.token], tokenizer, "force_token.token")
        found = continued([*found[: edit.position], said])
    return found


def text_prefixes(texts: Sequence[str], tokenizer: Tokenizer) -> list[list[int]]:
    """The ids of texts to begin with; what the model cannot write is refused."""
    read = {text: tokenizer.encode(text) for text in texts}
    for text, ids in read.items():
        if tokenizer.specials.unread in ids:
            begin, end = tokenizer.offsets(text)[ids.index(tokenizer.specials.unread)]
            raise DataError(
                f"prefix: the model cannot write {mentioned(text[begin:end])}; begin with words "
                "that it was trained on"
            )
    return [read[text] for text in texts]


def prefix_ids(tokens: Sequence[str], tokenizer: Tokenizer) -> list[int]:
    """The ids of tokens to begin with; nothing can follow the end token."""
    if isinstance(tokens, str):
        raise ConfigError(f"prefix: give a list of tokens such as [{tokens!r}], not one text")
    ids = token_ids(tokens, tokenizer, "prefix")
    if END_ID in ids:
        raise ConfigError(f"prefix: a target that has ended with {END} cannot be continued")
    return ids


def token_ids(tokens: Iterable[str], tokenizer: Tokenizer, field: str) -> list[int]:
    """The ids of tokens as they are shown; the end token may be among them."""
    shown = {token: i for i, token in enumerate(tokenizer.tokens(range(tokenizer.n_vocab)))}
    sayable = {token: i for token, i in shown.items() if token not in (PAD, BEGIN)}
    ids = []
    for token in tokens:
        if token not in sayable:
            hint = did_you_mean(str(token), sayable)
            raise ConfigError(
                f"{field}: the model cannot say {token!r}{hint}; take a token as it is shown, or "
                f"{END} to end"
            )
        ids.append(sayable[token])
    return ids
