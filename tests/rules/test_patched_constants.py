"""Tests reach what they change by a parameter: none patches a constant that a module keeps for itself."""

from __future__ import annotations

import ast

import pytest
from parsed_code import parsed, walked


def patched_constants(tree: ast.Module) -> list[tuple[int, str]]:
    """Line and name of each private constant (`_LIKE_THIS`) that `setattr` gets by name."""
    found = []
    for node in walked(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "setattr":
            for given in node.args:
                if isinstance(given, ast.Constant) and isinstance(given.value, str):
                    name = given.value.rpartition(".")[2]
                    if name.startswith("_") and name.isupper():
                        found.append((node.lineno, name))
    return found


@pytest.mark.parametrize(
    "code", ['monkeypatch.setattr(module, "_WAIT_S", 1)', 'p.setattr("web.parts._BODY_S", 1)', 'p.setattr(a, "_X", 0)']
)
def test_a_patched_constant_is_found(code: str) -> None:
    assert len(patched_constants(ast.parse(code))) == 1


def test_no_test_patches_a_private_constant() -> None:
    found = {path: lines for path, _, tree in parsed("tests") if (lines := patched_constants(tree))}
    assert found == {}
