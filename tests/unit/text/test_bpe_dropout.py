import gc
import signal

import numpy as np
import pytest

from regard.core.errors import TrainingError
from regard.text.bpe_dropout import BpeDropout, BpeDropoutProcess, derive
from regard.text.settings import TextSettings
from regard.text.tokenizer import Tokenizer

TEXTS = ["the animal did not cross the street", "l'animal n'a pas traversé la rue"] * 5
BPE = Tokenizer.train(TEXTS, TextSettings(vocab_size=300))


@pytest.fixture
def process():
    return BpeDropoutProcess([(BPE, TEXTS), (BPE, TEXTS[::-1])], room=40, share=0.3, seed=7)


def alone(texts, room, number):
    side = derive(np.array([7], np.uint64), number)
    keys = derive(side, np.arange(len(texts)))
    return BpeDropout(BPE, texts, share=0.3, room=room, keys=keys)


def same(found, expected):
    return all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


def test_the_process_gives_what_its_segmenters_give_in_any_order(process):
    expected = [alone(TEXTS, 40, 0), alone(TEXTS[::-1], 40, 1)]
    for epoch in (0, 1, 2, 7, 3):
        found = process.segmented(epoch)
        assert all(
            same(one, other.segment(epoch)) for one, other in zip(found, expected, strict=True)
        )
        assert found[0][0].dtype == np.int32


def test_a_process_that_died_is_told_of_with_a_remedy(process):
    process.segmented(0)
    process._process.kill()
    process._process.wait()
    for speak in (process.segmented, process._ask):
        with pytest.raises(TrainingError, match=r"ended \(code -9\).*--resume"):
            speak(1)


def test_an_interrupt_is_for_the_training_and_not_for_the_process(process):
    process.segmented(0)  # it has started
    process._process.send_signal(signal.SIGINT)
    process.segmented(1)
    process.segmented(2)
    assert process._process.poll() is None


def test_the_process_ends_when_nobody_holds_it():
    one = BpeDropoutProcess([(BPE, TEXTS)], room=50, share=0.3, seed=7)
    inner = one._process
    one.segmented(0)
    del one
    gc.collect()
    assert inner.poll() is not None


def test_a_closed_pipe_ends_the_process_quietly(capfd):
    one = BpeDropoutProcess([(BPE, TEXTS)], room=50, share=0.3, seed=7)
    one.segmented(0)
    one._process.stdin.close()
    one._process.stdout.close()
    assert one._process.wait(timeout=30) == 0
    assert capfd.readouterr().err == ""
