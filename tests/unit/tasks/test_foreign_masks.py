"""Words left out of texts that an encoder of others reads."""

import pytest
import torch
from language_models import weights_of

from regard.interop.bert import write_bert
from regard.interop.importing import import_model
from regard.models.encoder import Encoder
from regard.models.settings import EncoderConfig
from regard.tasks.opening import load

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "##s", "sat"]


@pytest.fixture
def run(tmp_path):
    torch.manual_seed(0)
    sizes = {"n_vocab": 9, "d_model": 12, "n_heads": 3, "d_ff": 20, "n_layers": 2, "max_len": 9}
    model, folder = Encoder(EncoderConfig(**sizes, head="masked")), tmp_path / "bert"
    folder.mkdir()
    write_bert(model.config, weights_of(model), folder)
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    import_model(folder, tmp_path / "run")
    return load(tmp_path / "run", device="cpu")


def test_a_mask_may_be_written_as_the_tokenizer_writes_it(run):
    assert run.fill("the [MASK] sat") == run.fill("the <mask> sat")
    look, ours = (run.explain(f"the {mask} sat") for mask in ("[MASK]", "<mask>"))
    assert look.outcome == ours.outcome
    assert run.unknown_words("the [MASK] sat") == []


def test_only_words_are_guessed_however_many_are_asked_for(run):
    (guesses,) = run.fill("the <mask>", 100).masks
    assert sorted(guess.token for guess in guesses) == sorted(WORDS[5:])
    assert all(guess.probability > 0 for guess in guesses)
