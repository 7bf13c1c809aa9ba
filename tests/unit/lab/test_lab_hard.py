from regard import lab


def test_the_estimate_is_right_on_average_noisy_and_calmed():
    result = lab.hard(n_draws=20_000, steps=150)
    assert result.verdict
    assert result.numbers["error of the mean"] < 0.1
    noisy = result.numbers["noise of one draw"]
    assert 1 < result.numbers["noise of one draw, with baseline"] < noisy / 1.5
    assert result.numbers["keys found, soft"] > 0.9


def test_without_a_baseline_nothing_calms_it():
    result = lab.hard(baseline=False, n_draws=2000, steps=20)
    assert not result.verdict
