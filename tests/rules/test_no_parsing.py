"""Names, reasons and sentences are written for people: no module takes one apart to learn something."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from parsed_code import REPO, ROOMS, parsed, walked

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
#: The format itself, each in the one module that owns it or reads it of another program.
OWNED = frozenset(
    {
        ("edge/serving/model_files.py", "message"),  # of onnx
        ("edge/serving/repository.py", "model"),  # a folder's name, checked
        ("edge/serving/repository.py", "version"),
        ("edge/serving/repository.py", "key"),  # "file:PATH" of Triton's protocol
        ("edge/settings/parsing.py", "kind"),  # of pydantic
        ("edge/settings/parsing.py", "message"),
        ("edge/simulation/fleet_ends.py", "job"),  # a scenario names jobs by how their ids begin
        ("edge/core/truth.py", "by"),  # imported_by and Answer.person
        ("edge/core/truth.py", "person"),
    }
)


#: The same on the page, with what it has of the server beside them.
PAGE_SAID = "|".join(sorted(SAID | {"allowed", "config", "destination", "id", "model_version", "who"}))
PAGE_SPLITS = (
    "charAt|endsWith|includes|indexOf|lastIndexOf|match|matchAll|replace|replaceAll|search|slice|split|startsWith"
    "|substr|substring"
)
_VALUE = rf"(?:\b(?:{PAGE_SAID})|\[\"(?:{PAGE_SAID})\"\]\)?)[?!]*"
#: `entry.kind.startsWith(`, `text(data["message"]).slice(`, `/x/.test(entry.kind)`.
TAKEN_APART = re.compile(rf"{_VALUE}\.(?:{PAGE_SPLITS})\(|\.(?:exec|test)\([\w$.?!(]*{_VALUE}\)")


def taken_apart(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Lines where a value of these names is split, or searched by a pattern or for a part."""
    for node in walked(tree):
        for value in _searched(node):
            name = value.attr if isinstance(value, ast.Attribute) else value.id if isinstance(value, ast.Name) else ""
            if name in SAID:
                yield value.lineno, name


def _searched(node: ast.AST) -> list[ast.expr]:
    """The values that an expression splits or searches."""
    if isinstance(node, ast.Compare):
        pairs = zip(node.ops, node.comparators, strict=True)
        return [value for op, value in pairs if isinstance(op, ast.In | ast.NotIn)]
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return []
    if node.func.attr in SPLITS:
        return [node.func.value]
    pattern = isinstance(node.func.value, ast.Name) and node.func.value.id == "re"
    return node.args[1:2] if pattern else []


def page_takes_apart(source: str) -> Iterator[tuple[int, str]]:
    """Lines of the page where a value of these names is split or searched."""
    for number, line in enumerate(source.splitlines(), 1):
        if TAKEN_APART.search(line):
            yield number, line.strip()


def test_a_name_that_is_taken_apart_is_found() -> None:
    code = "a = worker.key.partition('/')\nb = re.match('x', cause)\nc = path.split('/')\nd = reason.startswith('no')"
    assert sorted(taken_apart(ast.parse(code))) == [(1, "key"), (2, "cause"), (4, "reason")]


def test_a_sentence_that_is_searched_for_a_part_is_found() -> None:
    code = "a = 'x' in message\nb = name not in error.reason\nc = kind in KINDS\nd = 0 <= at in words"
    assert sorted(taken_apart(ast.parse(code))) == [(1, "message"), (2, "reason"), (4, "words")]


def test_no_name_or_reason_is_taken_apart() -> None:
    found = []
    for at, _, tree in (module for room in ROOMS for module in parsed(room)):
        if "migrations" not in at:
            found += [f"{at}:{line} {name}" for line, name in taken_apart(tree) if (at, name) not in OWNED]
    assert found == []


def test_what_a_page_takes_apart_is_found() -> None:
    for code in (
        "const rest = version.startsWith(`${camera}-`) ? 1 : 2;",
        'if (!entry.kind.startsWith("object.")) go();',
        "r.message.slice(r.camera.length + 2)",
        'reason?.split(":")[0]',
        'why!.endsWith(".")',
        "/^alarm/.test(entry.kind)",
        "CHANGES.test(e.kind)",
        "/^w(\\d+)-/.exec(version)",
        'message.includes("memory")',
        'model.id.replace("x", "")',
        'text(data["destination"]).startsWith("webhook/")',
        'PATTERN.test(text(data["message"]))',
    ):
        assert [line for _, line in page_takes_apart(f"a;\n{code}")] == [code], code
    for code in (
        "KINDS.includes(kind)",
        "allowed_kinds.includes(entry.kind)",
        'path.split("/")',
        "windows.slice(0, 3)",
        "ids.indexOf(camera)",
        'd.kinds.includes("missed")',
    ):
        assert list(page_takes_apart(code)) == [], code


def test_the_page_takes_no_sentence_apart() -> None:
    source = REPO / "web" / "frontend" / "src"
    found = [
        f"{p.relative_to(REPO).as_posix()}:{number}: {line}"
        for p in sorted(source.rglob("*.ts*"))
        for number, line in page_takes_apart(p.read_text(encoding="utf-8"))
    ]
    assert found == []
