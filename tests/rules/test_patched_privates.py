"""Tests reach what they change by a parameter: none patches what a module or an object keeps for itself."""

from __future__ import annotations

import ast

import pytest
from parsed_code import parsed, walked


def private(name: str) -> bool:
    """`_like_this`, after the last dot; not `__these__`."""
    last = name.rpartition(".")[2]
    return last.startswith("_") and not last.endswith("__")


def patched_privates(tree: ast.Module) -> list[tuple[int, str]]:
    """Line and name of each private name that `setattr` gets, and of each that is assigned in another object."""
    found = []
    for node in walked(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "setattr":
            names = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            found += [(node.lineno, name) for name in names[:1] if private(name)]
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and private(node.attr):
            own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            found += [] if own else [(node.lineno, node.attr)]
    return found


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ('monkeypatch.setattr(module, "_WAIT_S", 1)', 1),
        ('p.setattr("web.parts._BODY_S", 1)', 1),
        ('p.setattr(run, "_one_step", f)', 1),
        ('setattr(run, "_one_step", f)', 1),
        ("controller._plan = None", 1),
        ("a._x, b.y = 1, 2", 1),
        ("box.inner._count += 1", 1),
        ('p.setattr(web, "__call__", f)', 0),
        ('p.setattr(path, "chmod", "_x")', 0),
        ("self._plan = None", 0),
        ("found = controller._plan", 0),
    ],
)
def test_a_patched_private_name_is_found(code: str, count: int) -> None:
    assert len(patched_privates(ast.parse(code))) == count


def test_no_test_patches_a_private_name() -> None:
    found = {path: lines for path, _, tree in parsed("tests") if (lines := patched_privates(tree))}
    assert found == {}
