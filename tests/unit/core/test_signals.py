import signal

import pytest

from regard.core.signals import ENDING, Stop, raise_stop, signals_to


@pytest.fixture(autouse=True)
def _handlers_as_before():
    before = {number: signal.getsignal(number) for number in ENDING}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", ENDING)
def test_each_signal_is_heard_inside_the_block_and_as_before_after_it(number):
    before = signal.SIG_DFL  # under nohup a hangup would pass, see below
    signal.signal(number, before)
    with pytest.raises(Stop, match=number.name), signals_to(raise_stop):
        signal.raise_signal(number)
    assert signal.getsignal(number) == before


def test_a_hangup_that_nohup_lets_pass_stays_so():
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    with signals_to(raise_stop):
        signal.raise_signal(signal.SIGHUP)
