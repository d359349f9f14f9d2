"""Tests reach what they change by a parameter: none patches what a module or an object keeps for itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest
from parsed_code import parsed, walked


def private(name: str) -> bool:
    """`_like_this`, after the last dot; not `__these__`."""
    last = name.rpartition(".")[2]
    return last.startswith("_") and not last.endswith("__")


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


def test_no_test_patches_a_private_name() -> None:
    found = {path: lines for path, _, tree in parsed("tests") if (lines := patched_privates(tree))}
    assert found == {}
