"""Plug-ins: modules from outside the project that enter scores, models, tasks and the like.

A plug-in is a Python file, a package folder or an importable module; importing it is all that
happens, and while it is imported it adds entries to registries. Installed packages offer theirs
in the entry-point group ``regard``. Code is never imported from a run folder: a run names the
plug-ins that it needs, and whoever loads it brings them.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from regard.core.errors import ConfigError

GROUP = "regard"  # the entry-point group in which installed packages name their plug-ins

_loaded: dict[str, str] = {}
"""Module name → the name under which the plug-in was asked for, in order of loading."""

_digests: dict[str, str] = {}
"""Module name → the SHA-256 of the code that was imported."""

_installed_are_loaded = False


def load_plugins(names: Iterable[str | Path] | str | Path) -> None:
    """Import each plug-in once: a file (``mine.py``), a package folder or a dotted module.

    What goes wrong is one ConfigError with the plug-in's own error, its file and line.
    """
    for name in map(str, [names] if isinstance(names, str | Path) else names):
        module = module_name(name)
        if module in _loaded:
            continue
        path = _path(name)
        with _telling(name, module):
            _from_path(module, path) if path else importlib.import_module(module)
        _loaded[module] = name
        _digests[module] = _digest(getattr(sys.modules[module], "__file__", None))


def load_installed_plugins() -> None:
    """Import what installed packages offer in the entry-point group ``regard``, once."""
    global _installed_are_loaded
    if _installed_are_loaded:
        return
    _installed_are_loaded = True
    from importlib.metadata import entry_points  # slow to import, and seldom needed

    for point in entry_points(group=GROUP):
        with _telling(f"{point.name} ({point.value})", point.module):
            point.load()


def loaded_plugins() -> list[str]:
    """The plug-ins loaded by name in this process, as they were asked for."""
    return list(_loaded.values())


def plugin_digests() -> dict[str, str]:
    """Module name → the SHA-256 of each plug-in loaded by name; of a package, of all its code."""
    return {module: _digests[module] for module in _loaded}


def require_plugins(names: Iterable[str], who: str) -> None:
    """Refuse to go on where one of the plug-ins that ``who`` needs was not loaded."""
    missing = [name for name in names if module_name(name) not in _loaded]
    if missing:
        flags = " ".join(f"--plugin {name}" for name in missing)
        raise ConfigError(
            f"{who} needs plug-in {', '.join(missing)}: add {flags}, or plugins={missing} in Python"
        )


def module_name(name: str) -> str:
    """The module that a plug-in becomes: the same wherever its file lies.

    >>> module_name("examples/plugin/"), module_name("../mine.py"), module_name("lab.mine")
    ('plugin', 'mine', 'lab.mine')
    """
    if "/" in name or "\\" in name or name.endswith(".py"):
        return Path(name).resolve().name.removesuffix(".py")
    return name


def _path(name: str) -> Path | None:
    """The file or package folder that a name means, or None where it names a module."""
    path = Path(name).expanduser()
    if (path / "__init__.py").is_file():
        return (path / "__init__.py").resolve()
    if path.is_file():
        return path.resolve()
    if module_name(name) == name:
        return None
    if path.is_dir():
        raise ConfigError(f"plug-in {name} is a folder without an __init__.py")
    raise ConfigError(f"plug-in {name} does not exist")


def _digest(file: str | None) -> str:
    """Of a module's file, or of all code of a package; of nothing where there is no file of it."""
    found, path = hashlib.sha256(), Path(file or "")
    for one in sorted(path.parent.rglob("*.py")) if path.name == "__init__.py" else [path]:
        found.update(one.read_bytes() if one.is_file() else b"")
    return found.hexdigest()


def _from_path(module: str, path: Path) -> None:
    """Import a file, or a package by its ``__init__.py``, under its own name."""
    if (there := sys.modules.get(module)) is not None:
        if getattr(there, "__file__", None) == str(path):
            return
        raise ConfigError(f"there is a module {module!r} already; give the plug-in another name")
    folder = [str(path.parent)] if path.name == "__init__.py" else None
    spec = importlib.util.spec_from_file_location(module, path, submodule_search_locations=folder)
    if spec is None or spec.loader is None:
        raise ConfigError(f"{path} is not a Python file")
    imported = sys.modules[module] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(imported)
    except BaseException:
        del sys.modules[module]
        raise


@contextmanager
def _telling(name: str, module: str) -> Iterator[None]:
    """Inside the block, what a plug-in raises becomes one line with file and line."""
    try:
        yield
    except Exception as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is not None and f"{module}.".startswith(f"{missing}."):
            raise ConfigError(
                f"there is no plug-in {name}: no file, folder or module has that name"
            ) from error
        raise ConfigError(f"plug-in {name} does not import: {_told(error)}") from error


def _told(error: Exception) -> str:
    """What was raised, and where."""
    if isinstance(error, SyntaxError):
        where, reason = f"{error.filename}, line {error.lineno}", error.msg
    else:
        # The frames of this file and of the import system come first: those that are left are
        # the plug-in's, and what it called.
        for frame in traceback.extract_tb(error.__traceback__):
            file = frame.filename
            if file != __file__ and file[0] != "<" and "importlib" not in Path(file).parts:
                break
        else:
            return str(error)
        where, reason = f"{file}, line {frame.lineno}", str(error)
    kind = "" if isinstance(error, ConfigError) else f"{type(error).__name__}: "
    return f"{kind}{reason} ({where})"
