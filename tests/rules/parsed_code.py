"""The project's modules, read and parsed once for all rules."""

from __future__ import annotations

import ast
import gc
from functools import cache
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
ROOMS = ("edge", "golden", "microprofiler", "scheduler", "web")


@cache
def parsed(room: str) -> tuple[tuple[str, str, ast.Module], ...]:
    """(path from the repository's root, text, tree) of each Python module of a top-level folder, by path."""
    found = []
    # Trees are many small objects that stay: the garbage collector would look at all of them again and again.
    gc.disable()
    try:
        for path in sorted((REPO / room).rglob("*.py")):
            if "node_modules" not in path.parts:
                text = path.read_text(encoding="utf-8")
                found.append((path.relative_to(REPO).as_posix(), text, ast.parse(text)))
        gc.freeze()
    finally:
        gc.enable()
    return tuple(found)


@cache
def walked(tree: ast.Module) -> tuple[ast.AST, ...]:
    """All nodes of a module; to walk a tree takes about as long as to parse it."""
    return tuple(ast.walk(tree))
