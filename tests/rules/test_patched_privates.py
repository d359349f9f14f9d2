"""Tests reach what they change by a parameter: none patches what a module or an object keeps for itself, nor a
constant."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest
from parsed_code import parsed, walked


def private(name: str) -> bool:
    """`_like_this`, after the last dot; not `__these__`."""
    last = name.rpartition(".")[2]
    return last.startswith("_") and not last.endswith("__")


#: Constants that no caller chooses, each with its reason.
FIXED = frozenset({("tests/upkeep/test_backup.py", "MIGRATIONS")})  # a Magpie of tomorrow has one file more


def constant(name: str) -> bool:
    """`LIKE_THIS`, after the last dot."""
    return re.fullmatch(r"[A-Z][A-Z0-9_]+", name.rpartition(".")[2]) is not None


def patched_constants(tree: ast.Module) -> list[tuple[int, str]]:
    """Line and name of each constant of a module or a class that is patched."""
    found = []
    for node in walked(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "setattr":
            names = [a.value for a in node.args[:2] if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            found += [(node.lineno, name.rpartition(".")[2]) for name in names[:1] if constant(name)]
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and constant(node.attr):
            found.append((node.lineno, node.attr))
    return found


def patched_privates(tree: ast.Module) -> list[tuple[int, str]]:
    """Line and name of each private name that is patched, that of an object in which something is patched included."""
    found = []
    for node in walked(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) == "setattr":
            names = [a.value for a in node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
            names = [*names[:1], *(reached(node.args[0]) if node.args else ())]
            found += [(node.lineno, name) for name in names if private(name)]
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found += [(node.lineno, name) for name in reached(node) if private(name)]
    return found


def reached(node: ast.expr) -> Iterator[str]:
    """The attributes on the way to a value, but for those of the test's own object."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
        if isinstance(node, ast.Attribute) and not own:
            yield node.attr
        node = node.value


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ('monkeypatch.setattr(module, "_WAIT_S", 1)', 1),
        ('p.setattr("web.parts._BODY_S", 1)', 1),
        ('p.setattr(run, "_one_step", f)', 1),
        ('setattr(run, "_one_step", f)', 1),
        ('p.setattr(box._inner, "step", f)', 1),
        ('p.setattr(self.box._inner["a"], "step", f)', 1),
        ("controller._plan = None", 1),
        ("a._x, b.y = 1, 2", 1),
        ("box.inner._count += 1", 1),
        ("box._inner.count += 1", 1),
        ('p.setattr(web, "__call__", f)', 0),
        ('p.setattr(path, "chmod", "_x")', 0),
        ('p.setattr(self._own, "step", f)', 0),
        ("self._plan = None", 0),
        ("self._plan.step = 1", 0),
        ("found = controller._plan", 0),
    ],
)
def test_a_patched_private_name_is_found(code: str, count: int) -> None:
    assert len(patched_privates(ast.parse(code))) == count


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ('monkeypatch.setattr(module, "WAIT_S", 1)', 1),
        ('p.setattr("web.parts.BODY_S", 1)', 1),
        ("module.WAIT_S = 1", 1),
        ('p.setattr(module, "wait", "FP16")', 0),
        ('p.setattr("os.name", "NT")', 0),
        ("WAIT_S = module.WAIT_S", 0),
    ],
)
def test_a_patched_constant_is_found(code: str, count: int) -> None:
    assert len(patched_constants(ast.parse(code))) == count


def test_no_test_patches_a_constant() -> None:
    found = [
        f"{path}:{line} {name}"
        for path, _, tree in parsed("tests")
        for line, name in patched_constants(tree)
        if (path, name) not in FIXED
    ]
    assert found == []


def test_no_test_patches_a_private_name() -> None:
    found = {path: lines for path, _, tree in parsed("tests") if (lines := patched_privates(tree))}
    assert found == {}
