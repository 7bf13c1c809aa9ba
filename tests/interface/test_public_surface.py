import importlib

import regard


def test_all_is_what_is_importable():
    for name in regard.__all__:
        assert getattr(regard, name).__name__ == name
    assert set(regard.__all__) == set(regard._HOMES)
    assert set(regard.__all__) <= set(dir(regard))


def test_names_lead_to_their_homes():
    for name, home in regard._HOMES.items():
        assert getattr(importlib.import_module(home), name) is getattr(regard, name)
