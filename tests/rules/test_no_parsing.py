"""Names, reasons and sentences are written for people: no module takes one apart to learn something."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest
from parsed_code import REPO, ROOMS, parsed, walked

SPLITS = frozenset(
    {"partition", "rpartition", "split", "rsplit", "removeprefix", "removesuffix", "startswith", "endswith"}
    | {"find", "rfind", "index", "rindex", "count", "replace", "translate"}
)
#: Methods of `re` and of compiled patterns.
SEARCHES = frozenset({"match", "fullmatch", "search", "findall", "finditer", "split", "sub", "subn"})
#: Calls that give the same text in another form.
SAME_TEXT = frozenset({"lower", "upper", "casefold", "strip", "lstrip", "rstrip", "decode", "encode"})
#: Values that name a user, or say why.
SAID = frozenset(
    {
        "by",
        "camera",
        "cause",
        "content",
        "error",
        "executor",
        "job",
        "key",
        "kind",
        "message",
        "model",
        "person",
        "reason",
        "sentence",
        "source",
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
        ("edge/upkeep/frigate.py", "source"),  # an address in Frigate's configuration
        ("edge/upkeep/label_files.py", "by"),  # of label files in their older format
        ("edge/load/client.py", "content"),  # of other servers, which have words for a refusal and no code
        ("edge/engines/ray_link.py", "error"),  # of Ray
        ("edge/models/opening.py", "error"),  # a path of this machine is taken out of onnxruntime's words
        ("edge/serving/arena.py", "content"),  # bytes of tensors
        ("web/app.py", "content"),  # of the OpenAPI schema
        ("edge/store/database.py", "error"),  # of database drivers
        ("edge/serving/torch_files.py", "kind"),  # of torch
        ("web/tls.py", "error"),  # of OpenSSL
        ("edge/appliance/answered_pictures.py", "camera"),  # a folder's name, checked
        ("edge/engines/kubernetes_names.py", "job"),  # made into a name of Kubernetes
        ("edge/shares/cgroup.py", "worker"),  # made into a folder's name
        ("web/oip/names.py", "version"),  # a whole number, checked
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
    """Lines where a value of these names is split, cut, or searched by a pattern or for a part."""
    patterns = _patterns(tree)
    for node in walked(tree):
        for value in _searched(node, patterns):
            if (name := _named(value)) in SAID:
                yield value.lineno, name


def _patterns(tree: ast.Module) -> set[str]:
    """Names that a module gives to compiled patterns."""
    found = set()
    for node in walked(tree):
        assigned = isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Call)
        if assigned and ast.unparse(node.value.func) == "re.compile":
            found |= {_last(target) for target in (node.targets if isinstance(node, ast.Assign) else [node.target])}
    return found


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _named(value: ast.expr) -> str:
    """The name of a value, also of `row["name"]`, `row.get("name")`, `str(name)`, `name.lower()` and `name[:9]`."""
    if isinstance(value, ast.Subscript):
        key = value.slice
        return str(key.value) if isinstance(key, ast.Constant) else _named(value.value) if _cut(key) else ""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr == "get" and value.args and isinstance(value.args[0], ast.Constant):
            return str(value.args[0].value)
        return _named(value.func.value) if value.func.attr in SAME_TEXT else ""
    if isinstance(value, ast.Call) and _last(value.func) in ("str", "repr", "bytes") and value.args:
        return _named(value.args[0])
    return _last(value)


def _cut(key: ast.expr) -> bool:
    return isinstance(key, ast.Slice)


def _searched(node: ast.AST, patterns: set[str]) -> list[ast.expr]:
    """The values that an expression splits, cuts or searches."""
    if isinstance(node, ast.Compare):
        pairs = zip(node.ops, node.comparators, strict=True)
        return [value for op, value in pairs if isinstance(op, ast.In | ast.NotIn)]
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) and isinstance(node.ctx, ast.Load):
        # [:MOST] shortens.
        return [] if node.slice.lower is None and not isinstance(node.slice.upper, ast.UnaryOp) else [node.value]
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return []
    by = _last(node.func.value)
    if by == "re":
        return [a for a in node.args[1:3] if node.func.attr in SEARCHES]
    if node.func.attr in SEARCHES and (by in patterns or (by.isupper() and by not in SAID)):
        return node.args[:2]
    # `" ".join(words.split())` puts a text on one line.
    one_line = node.func.attr == "split" and not node.args
    return [node.func.value] if node.func.attr in SPLITS and not one_line else []


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


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("A = re.compile('x')\nA.search(reason)", "reason"),
        ("_NAMES.fullmatch(self.worker)", "worker"),
        ("A.sub('', row['message'])", "message"),
        ("re.sub('a', 'b', job)", "job"),
        ("entry['kind'].startswith('model.')", "kind"),
        ("entry.get('kind', '').startswith('model.')", "kind"),
        ("str(reason).split(':')", "reason"),
        ("error.reason.lower().find('memory')", "reason"),
        ("'memory' in str(error)", "error"),
        ("'memory' in entry['message']", "message"),
        ("words.replace('a', '')", "words"),
        ("key[3:]", "key"),
        ("output.source.partition('.')", "source"),
        ("version[-2:]", "version"),
        ("kind[:-1]", "kind"),
        ("_PATTERN.search(content[:2000])", "content"),
    ],
)
def test_another_way_to_take_a_name_apart_is_found(line: str, name: str) -> None:
    assert [found for _, found in taken_apart(ast.parse(line))] == [name]


@pytest.mark.parametrize(
    "line",
    [
        "reason[:200]", "words[:_MOST]", "' '.join(str(error).split())", "str(error).splitlines()[0]",
        "KINDS[kind]", "entry['kind'] == 'plan'", "PATTERN.search(path)", "kind in KINDS", "rows[key]",
        "workers[2:]", "error.code == 'x'",
    ],
)  # fmt: skip
def test_a_name_that_is_shortened_or_compared_is_not_taken_apart(line: str) -> None:
    assert list(taken_apart(ast.parse(line))) == []


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
