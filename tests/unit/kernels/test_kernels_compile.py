"""Our Triton kernels compile for a GPU that is not here; what they compute is tested elsewhere."""

import ast
import importlib.util
from pathlib import Path

import programs
import pytest

from regard.kernels import gpu

COMPILED = Path(__file__).parents[2] / "compiled_kernels.py"
MOST_SHARED = 227 * 1024
"""Bytes of shared memory that a program may have on a Hopper chip."""


def kernels():
    """(module, name) of what is launched: functions of Triton that no other one calls."""
    found, called = set(), set()
    for path in Path(gpu.__file__).parent.glob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and "triton.jit" in map(
                ast.unparse, node.decorator_list
            ):
                found.add((path.stem, node.name))
                calls = (one for one in ast.walk(node) if isinstance(one, ast.Call))
                called |= {call.func.id for call in calls if isinstance(call.func, ast.Name)}
    return {(module, name) for module, name in found if name not in called}


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton")
def test_every_kernel_compiles_for_hopper(started):
    program = started("-W", "ignore", COMPILED, 90, env={"TRITON_INTERPRET": "0"})
    out, err = programs.said(program)
    assert program.returncode == 0, err
    shared = {(module, name): int(n) for module, name, n in map(str.split, out.splitlines())}
    assert shared.keys() == kernels()  # a kernel that is never launched there fails here
    assert max(shared.values()) <= MOST_SHARED
