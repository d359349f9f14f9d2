"""Room in the house: no class, module or function grows past what one person reads in one go."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from itertools import takewhile

from parsed_code import REPO, ROOMS, parsed, walked

MOST_METHODS, MOST_ATTRIBUTES, MOST_LINES, MOST_FUNCTION_LINES = 30, 20, 600, 60

PAGE = REPO / "web" / "frontend" / "src"
#: The first line of a function of the page or of a constant, where more lines belong to it.
_OPENS = re.compile(r"( *)(?:export )?(?:default )?(?:(?:async )?(function)\*? (\w+)|const (\w+)\b).*[({\[<]$")


@cache
def _modules(rooms: tuple[str, ...] = (*ROOMS, "tests", "benchmarks")) -> tuple[tuple[str, str, ast.Module], ...]:
    return tuple(module for room in rooms for module in parsed(room))


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (n for n in walked(tree) if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef))


def _methods(found: ast.ClassDef) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
    return [n for n in found.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]


def _own_classes() -> dict[str, ast.ClassDef]:
    """The product's classes by name: no two have one."""
    modules = _modules(tuple(ROOMS))
    return {n.name: n for _, _, tree in modules for n in tree.body if isinstance(n, ast.ClassDef)}


def _bases(found: ast.ClassDef, own: dict[str, ast.ClassDef]) -> Iterator[ast.ClassDef]:
    """The product's classes that it is made from."""
    for base in found.bases:
        base = base.value if isinstance(base, ast.Subscript) else base
        name = base.id if isinstance(base, ast.Name) else base.attr if isinstance(base, ast.Attribute) else ""
        if name in own and own[name] is not found:
            yield own[name]


def _inherited(found: ast.ClassDef, own: dict[str, ast.ClassDef]) -> set[str]:
    """The names of its methods, those of the product's classes that it is made from included."""
    names = {method.name for method in _methods(found)}
    for base in _bases(found, own):
        names |= _inherited(base, own)
    return names


def _fields(found: ast.ClassDef) -> set[str]:
    """The fields that it declares; a class variable is none."""
    declared = (n for n in found.body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name))
    return {n.target.id for n in declared if not ast.unparse(n.annotation).startswith("ClassVar")}


def _attributes(found: ast.ClassDef) -> set[str]:
    """The attributes that its methods set on `self`, and the fields that it declares."""
    names = _fields(found)
    for method in _methods(found):
        for node in ast.walk(method):
            stored = isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
            if stored and isinstance(node.value, ast.Name) and node.value.id == "self":
                names.add(node.attr)
    return names


def _inherited_attributes(found: ast.ClassDef, own: dict[str, ast.ClassDef]) -> set[str]:
    """Its attributes, those of the product's classes that it is made from included."""
    return _attributes(found).union(*(_inherited_attributes(base, own) for base in _bases(found, own)))


def test_no_class_has_too_many_methods_or_attributes() -> None:
    large = {}
    for path, _, tree in _modules():
        for found in (n for n in walked(tree) if isinstance(n, ast.ClassDef)):
            fields = len(_attributes(found))
            if len(_methods(found)) > MOST_METHODS or fields > MOST_ATTRIBUTES:
                large[f"{path}: {found.name}"] = (len(_methods(found)), fields)
    assert large == {}


def test_no_class_has_too_many_methods_with_those_that_it_inherits() -> None:
    own = _own_classes()
    counts = {found.name: len(_inherited(found, own)) for found in own.values()}
    assert {name: count for name, count in counts.items() if count > MOST_METHODS} == {}


def test_no_class_has_too_many_attributes_with_those_that_it_inherits() -> None:
    own = _own_classes()
    counts = {found.name: len(_inherited_attributes(found, own)) for found in own.values()}
    assert {name: count for name, count in counts.items() if count > MOST_ATTRIBUTES} == {}


def test_inherited_methods_and_attributes_are_counted() -> None:
    code = """
class A:
    x: int
    def a(self): ...
    def b(self): ...
class B(A):
    x: float
    y: int
    def b(self): self.z, self.x = 1, self.w
    def c(self): ...
class C(Generic[T], module.B, list): ...
"""
    own = {n.name: n for n in ast.parse(code).body if isinstance(n, ast.ClassDef)}
    assert {name: _inherited(found, own) for name, found in own.items()} == {
        "A": {"a", "b"}, "B": {"a", "b", "c"}, "C": {"a", "b", "c"},
    }  # fmt: skip
    assert {name: _inherited_attributes(found, own) for name, found in own.items()} == {
        "A": {"x"}, "B": {"x", "y", "z"}, "C": {"x", "y", "z"},
    }  # fmt: skip


def test_no_module_is_too_long() -> None:
    lengths = {path: text.count("\n") for path, text, _ in _modules() if not path.startswith("edge/demo/")}
    assert {path: lines for path, lines in lengths.items() if lines > MOST_LINES} == {}


def test_no_function_is_too_long() -> None:
    long = {}
    for path, _, tree in _modules():
        # A schema's first version is one list of tables.
        if not path.startswith("edge/store/migrations/"):
            for found in _functions(tree):
                lines = (found.end_lineno or found.lineno) - found.lineno + 1
                if lines > MOST_FUNCTION_LINES:
                    long[f"{path}: {found.name}"] = lines
    assert long == {}


def test_no_two_classes_of_the_product_have_one_name() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path, _, tree in _modules(tuple(ROOMS)):
        for found in (n for n in tree.body if isinstance(n, ast.ClassDef)):
            places[found.name].append(path)
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def page_functions(text: str) -> Iterator[tuple[int, str, int]]:
    """Line, name and length in lines of each function of a module of the page: declarations, and constants that an
    arrow function with a body in brackets is the value of, or is handed to. One ends at the first line that closes its
    indentation for good: `}: Props) {` and `): void => {` end its parameters only."""
    lines = text.split("\n")
    for first, line in enumerate(lines):
        opening = _OPENS.match(line)
        if opening is None:
            continue
        indent, declared, *names = opening.groups()
        closers = tuple(indent + bracket for bracket in ")}]>")
        brackets = [first, *(n for n in range(first + 1, len(lines)) if lines[n].startswith(closers))]
        opened = list(takewhile(lambda n: lines[n].endswith(("(", "{", "[", "<")), brackets))
        if declared or any(lines[n].endswith(("=> {", "=> (")) for n in opened):
            yield first + 1, names[0] or names[1], brackets[len(opened)] - first + 1


def test_no_module_of_the_page_is_too_long() -> None:
    files = [p for p in PAGE.rglob("*") if p.suffix in (".ts", ".tsx", ".css") and p.name != "answers.ts"]
    lengths = {p.relative_to(PAGE).as_posix(): p.read_text(encoding="utf-8").count("\n") for p in files}
    assert len(lengths) > 50
    assert {path: lines for path, lines in lengths.items() if lines > MOST_LINES} == {}


def test_no_function_of_the_page_is_too_long() -> None:
    lengths = {}
    for path in sorted(p for p in PAGE.rglob("*.ts*") if p.name != "answers.ts"):
        for line, name, lines in page_functions(path.read_text(encoding="utf-8")):
            lengths[f"{path.relative_to(PAGE).as_posix()}:{line}: {name}"] = lines
    assert len(lengths) > 500
    assert {function: lines for function, lines in lengths.items() if lines > MOST_FUNCTION_LINES} == {}


def test_the_functions_of_the_page_are_found() -> None:
    code = """
const WORDS: Record<string, (camera: string) => string> = {
  lost: (camera) => `${camera} is lost`,
};

export function Page({
  cameras,
}: Props) {
  const names = cameras.map(
    (c) => c.name,
  );
  const save = async (
    event: Event,
  ): Promise<void> => {
    if (event) {
LONG
    } else {
      b();
    }
  };
  const row = (c: Camera) => (
    <li>{c.name}</li>
  );
  return <form onSubmit={save}>{cameras.map(row)}</form>;
}
const short = (a: number): number => a + 1;
export default async function* last() {
  yield 1;
}
""".replace("LONG", "\n".join(["      a();"] * 100))
    assert list(page_functions(code)) == [(6, "Page", 119), (12, "save", 108), (120, "row", 3), (126, "last", 3)]
