"""Names, reasons and sentences are written for people: no module takes one apart to learn something."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from parsed_code import REPO, parsed

#: Rooms that hold identities and reasons. Others read formats of other programs, which is what they are for.
ROOMS = (
    "edge/appliance/",
    "edge/runtime/",
    "edge/outputs/",
    "edge/store/",
    "edge/core/",
    "edge/tracking/",
    "scheduler/",
    "web/",
)
SPLITS = frozenset(
    {"partition", "rpartition", "split", "rsplit", "removeprefix", "removesuffix", "startswith", "endswith"}
)
#: Values that name somebody, or say why.
SAID = frozenset(
    {
        "by",
        "camera",
        "cause",
        "executor",
        "job",
        "key",
        "kind",
        "message",
        "model",
        "person",
        "reason",
        "sentence",
    }
    | {"version", "why", "words", "worker"}
)
#: The format itself, each in the one module that owns it.
OWNED = frozenset(
    {
        ("edge/core/truth.py", "by"),  # imported_by and Answer.person
        ("edge/core/truth.py", "person"),
    }
)


def taken_apart(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Lines where a value of these names is split, or searched by a pattern."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        if node.func.attr in SPLITS:
            value = node.func.value
        elif isinstance(node.func.value, ast.Name) and node.func.value.id == "re" and len(node.args) > 1:
            value = node.args[1]
        else:
            continue
        name = value.attr if isinstance(value, ast.Attribute) else value.id if isinstance(value, ast.Name) else ""
        if name in SAID:
            yield node.lineno, name


def test_a_name_that_is_taken_apart_is_found() -> None:
    code = "a = worker.key.partition('/')\nb = re.match('x', cause)\nc = path.split('/')\nd = reason.startswith('no')"
    assert sorted(taken_apart(ast.parse(code))) == [(1, "key"), (2, "cause"), (4, "reason")]


def test_no_name_or_reason_is_taken_apart() -> None:
    found = []
    for at, _, tree in (module for room in ("edge", "scheduler", "web") for module in parsed(room)):
        if at.startswith(ROOMS) and "migrations" not in at:
            found += [f"{at}:{line} {name}" for line, name in taken_apart(tree) if (at, name) not in OWNED]
    assert found == []


def test_the_page_takes_no_sentence_apart() -> None:
    source = REPO / "web" / "frontend" / "src"
    pattern = re.compile(
        r"\.(exec|match|split|startsWith)\((cause|reason|message|why|sentence|\w+\.(cause|reason|message|allowed))\b"
    )
    found = [
        f"{p.relative_to(REPO).as_posix()}: {line.strip()}"
        for p in sorted(source.rglob("*.ts*"))
        for line in p.read_text(encoding="utf-8").splitlines()
        if pattern.search(line)
    ]
    assert found == []
