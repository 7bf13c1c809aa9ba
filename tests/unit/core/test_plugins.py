import hashlib
import importlib.metadata
import sys
from importlib.metadata import EntryPoint

import pytest

from regard.core import plugins
from regard.core.errors import ConfigError
from regard.core.plugins import load_plugins, loaded_plugins, require_plugins
from regard.core.registry import Registry

FRUIT: Registry[int] = Registry("fruit")


@pytest.fixture(autouse=True)
def a_clean_table(monkeypatch):
    """Plug-ins, modules and entries of a test are gone after it."""
    modules = set(sys.modules)
    monkeypatch.setattr(plugins, "_loaded", {})
    monkeypatch.setattr(plugins, "_installed_are_loaded", True)
    yield
    for name in set(sys.modules) - modules:
        del sys.modules[name]
    FRUIT._things.clear()


def written(folder, name, text):
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return str(path)


ADDS = f"from {__name__} import FRUIT\nFRUIT.add('{{0}}')({{1}})\n"


@pytest.fixture
def adds(monkeypatch):
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])
    return ADDS.format


def test_a_file_is_imported_once(tmp_path, adds):
    path = written(tmp_path, "my_apple.py", adds("apple", 1))
    load_plugins([path, path])
    load_plugins([path])
    assert FRUIT["apple"] == 1
    assert loaded_plugins() == [path]


def test_a_package_folder_imports_its_own_modules(tmp_path, adds):
    written(tmp_path, "my_fruits/pear.py", adds("pear", 2))
    written(tmp_path, "my_fruits/__init__.py", "from my_fruits import pear\nfrom . import pear\n")
    load_plugins([str(tmp_path / "my_fruits")])
    assert FRUIT["pear"] == 2


def test_a_module_is_imported_by_its_dotted_name(tmp_path, adds, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    written(tmp_path, "my_orchard/__init__.py", "")
    written(tmp_path, "my_orchard/plum.py", adds("plum", 3))
    load_plugins(["my_orchard.plum"])
    assert FRUIT["plum"] == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\ny = z\n", r"does not import: NameError: name 'z' is not defined \(.*, line 2\)$"),
        ("\n\nx = = 1\n", r"does not import: SyntaxError: invalid syntax \(.*broken.py, line 3\)$"),
        ("import no_such_library\n", r"No module named 'no_such_library' \(.*broken.py, line 1\)$"),
    ],
)
def test_what_does_not_import_is_told_with_its_line(tmp_path, text, message):
    path = written(tmp_path, "broken.py", text)
    with pytest.raises(ConfigError, match=message) as caught:
        load_plugins([path])
    assert "\n" not in str(caught.value)
    assert "broken" not in sys.modules


@pytest.mark.parametrize("name", ["nowhere.py", "no_such_module", "regard.no_such_module", "./no/"])
def test_what_is_not_there_is_refused(name):
    with pytest.raises(ConfigError, match=f"plug-in {name}"):
        load_plugins([name])


def test_a_folder_that_is_no_package_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="folder without an __init__"):
        load_plugins([str(tmp_path)])


def test_a_file_cannot_take_the_name_of_a_module(tmp_path):
    with pytest.raises(ConfigError, match="there is a module 'json' already"):
        load_plugins([written(tmp_path, "json.py", "")])


def test_a_name_entered_twice_names_both_modules(tmp_path, adds):
    FRUIT.add("apple")(0)
    path = written(tmp_path, "second_apple.py", adds("apple", 1))
    message = rf"fruit 'apple' is entered twice, by {__name__} and by second_apple.*line 2\)"
    with pytest.raises(ConfigError, match=message):
        load_plugins([path])
    assert FRUIT["apple"] == 0


def test_a_plugin_has_the_fingerprint_of_its_code(tmp_path):
    file = written(tmp_path, "printed.py", "x = 1\n")
    written(tmp_path, "my_prints/part.py", "y = 1\n")
    written(tmp_path, "my_prints/__init__.py", "")
    load_plugins([file, str(tmp_path / "my_prints"), "math"])
    found = plugins.plugin_digests()
    assert found["printed"] == hashlib.sha256(b"x = 1\n").hexdigest()
    assert found["my_prints"] == hashlib.sha256(b"y = 1\n").hexdigest()
    assert found.keys() == {"printed", "my_prints", "math"}  # one may be part of Python itself


def test_a_run_asks_for_the_plugins_that_it_needs(tmp_path):
    path = written(tmp_path, "needed.py", "")
    with pytest.raises(
        ConfigError, match=r"^runs/x needs plug-in needed.py: add --plugin needed.py, or p"
    ):
        require_plugins(["needed.py"], "runs/x")
    load_plugins([path])
    require_plugins(["needed.py", "elsewhere/needed.py"], "runs/x")


def test_an_installed_plugin_is_loaded_when_a_name_is_not_known(tmp_path, adds, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    written(tmp_path, "installed_fruit.py", adds("cherry", 4))
    point = EntryPoint("cherries", "installed_fruit", plugins.GROUP)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [point])
    monkeypatch.setattr(plugins, "_installed_are_loaded", False)
    assert list(FRUIT) == []
    assert FRUIT["cherry"] == 4


def test_an_installed_plugin_that_does_not_import_is_named(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    written(tmp_path, "installed_broken.py", "1 / 0\n")
    point = EntryPoint("fractions", "installed_broken", plugins.GROUP)
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [point])
    monkeypatch.setattr(plugins, "_installed_are_loaded", False)
    with pytest.raises(ConfigError, match=r"plug-in fractions \(installed_broken\) does not impor"):
        FRUIT["fig"]
