"""Docstrings name their subject: no clause begins with "what", "who", "whoever" or "whatever"."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from parsed_code import ROOMS, parsed, walked

#: At the start, or behind the end of a clause.
CLAUSE = re.compile(r"(?:^|[.:;] )(?:what|who|whoever|whatever)\b", re.IGNORECASE)


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, text on one line) of each docstring, those behind fields included."""
    for node in walked(tree):
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            match statement:
                case ast.Expr(value=ast.Constant(value=str() as text)):
                    yield statement.lineno, " ".join(text.split())


def without_subject(path: str, tree: ast.Module) -> list[str]:
    """Each clause that begins so, with its place."""
    return [
        f"{path}:{line}: {text[found.start() :][:80]}"
        for line, text in docstrings(tree)
        for found in CLAUSE.finditer(text)
    ]


def test_docstrings_name_their_subject() -> None:
    found = [words for room in ROOMS for path, _, tree in parsed(room) for words in without_subject(path, tree)]
    assert not found, "\n".join(found)


MADE_UP = '''
"""Connections; what sends no HTTP is closed."""

class Gate:
    """Who may come in. A user who has a token may, and a field's type tells what it takes."""

    open: bool
    """Whatever: this is behind a field."""

    def check(self) -> None:
        """The rights:
        whoever asks has them."""
'''


def test_the_rule_finds_clauses_without_a_subject() -> None:
    found = without_subject("made_up.py", ast.parse(MADE_UP))
    assert [words.partition(": ")[2].lstrip(".:; ").split()[0] for words in found] == [
        "what",
        "Who",
        "Whatever:",
        "whoever",
    ]
