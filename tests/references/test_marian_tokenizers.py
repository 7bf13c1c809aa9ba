"""Texts become the tokens that MarianMT's own tokenizer makes, and the Auto class reads ours."""

import json
import os

import pytest
from letters import LETTERS

from regard.interop.exporting import export
from regard.interop.importing import tokenizers_beside
from regard.tasks.translator import load_translator

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before it is imported: nothing is looked for
transformers = pytest.importorskip("transformers", reason="transformers is not installed")

TEXTS = [
    "The animal did not cross the street because it was too tired.",
    "  two  spaces,  ﬁne ½ ",
    "Élan vital, ça va? 100% of (them)!",
    "an unknown sign 日 here",
    "Z",
    "",
]


@pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")
def test_pieces_are_those_of_marian(tmp_path):
    spm = pytest.importorskip("sentencepiece", reason="sentencepiece is not installed")
    words = " ".join(TEXTS[:3]).split()
    lines = [" ".join(words[i : i + n]) for n in (1, 2, 3, 5) for i in range(len(words) - n + 1)]
    sides = {"source": lines, "target": [line.upper() for line in lines]}
    ids = {"</s>": 0, "<unk>": 1}
    for side, texts in sides.items():
        spm.SentencePieceTrainer.Train(
            sentence_iterator=iter(texts * 5),
            model_prefix=str(tmp_path / side),
            vocab_size=80,
            hard_vocab_limit=False,
            minloglevel=2,
        )
        (tmp_path / f"{side}.model").rename(tmp_path / f"{side}.spm")
        made = spm.SentencePieceProcessor(str(tmp_path / f"{side}.spm"))
        for number in range(3, made.get_piece_size()):
            ids.setdefault(made.id_to_piece(number), len(ids))
    ids["<pad>"] = len(ids)
    (tmp_path / "vocab.json").write_text(json.dumps(ids))
    theirs = transformers.MarianTokenizer(
        *(str(tmp_path / name) for name in ("source.spm", "target.spm", "vocab.json"))
    )
    specials = ("<pad>", "<s>", "</s>", "<unk>")
    tokens = [*specials, *(token for token in ids if token not in specials)]
    ours = tokenizers_beside(tmp_path, tokens, tokens)
    assert not ours.shared
    for text in [*TEXTS, *lines]:
        wanted = theirs.convert_ids_to_tokens(theirs(text).input_ids)[:-1]
        assert ours.source.tokens(ours.source.encode(text)) == wanted
        wanted = theirs.convert_ids_to_tokens(theirs(text_target=text.upper()).input_ids)[:-1]
        written = ours.target.encode(text.upper())
        assert ours.target.tokens(written) == wanted
        if "<unk>" not in wanted:
            assert ours.target.decode(written) == theirs.spm_target.decode(wanted)


def test_the_auto_tokenizer_reads_what_we_export(run_path, tmp_path):
    run = load_translator(run_path, device="cpu")
    export(run, "hf", tmp_path / "hf")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "hf")
    for text in ("a b c", " ".join(LETTERS), "a", "zebra a"):
        assert theirs(text).input_ids == [*run.tokenizers.source.encode(text), 2]
    assert (theirs.pad_token_id, theirs.eos_token_id, theirs.unk_token_id) == (0, 2, 3)
