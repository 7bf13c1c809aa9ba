from regard import lab


def test_rows_over_the_keys_are_distributions():
    result = lab.rows()
    assert result.verdict
    assert result.numbers["outside (0, 1): plain"] == 0
    assert result.numbers["outside (0, 1): one key"] == 1
    assert (
        result.numbers["outside (0, 1): causal mask"] == 16 / 36
    )  # 15 hidden; the first sees one key
    assert result.numbers["outside (0, 1): scores × 1,000"] > 0.5


def test_sums_over_the_queries_are_not_one():
    assert not lab.rows(axis=-2).verdict
