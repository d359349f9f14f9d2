"""The product's names are the field's nouns and plain verbs: no module, class, function, parameter, variable or
attribute has a coined one, such as `told` for an answer or `thing` for an object."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import PurePosixPath

import pytest
from parsed_code import ROOMS, parsed, walked

#: As a name or between underscores. An answer is shown, a report sent, a listener notified.
PARTS = {"told", "tell", "tells", "telling", "thing", "things"}
#: As a whole name.
NAMES = {"_say", "let_in"}
#: At the end of a class's name.
ENDS = ("Told", "Thing", "Kept", "Asker", "World", "Book")
#: Before another word of a class's name: a record is stored, a lease renewed.
BEGINS = re.compile(r"_?(Kept|Asker|World|Book)[A-Z]")
#: Names that are not ours to choose, with the module that has them.
NOT_OURS = {("edge/clips/mp4.py", "tell"): "a method of Python's files"}


def coined(name: str) -> bool:
    """Whether an identifier is a coined name, or has one in it."""
    whole = name in NAMES or name.endswith(ENDS) or BEGINS.match(name) is not None
    return whole or not PARTS.isdisjoint(name.lower().split("_"))


def identifiers(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, name) of each identifier; an imported name is one of the module that has it."""
    for node in walked(tree):
        match node:
            case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name):
                yield node.lineno, name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield node.lineno, name
            case ast.keyword(arg=str() as name):
                yield node.value.lineno, name
            case ast.alias(asname=str() as name):
                yield node.lineno, name


def coined_names(path: str, tree: ast.Module) -> list[str]:
    """Each with its place; a module's own name has line 0."""
    names = [(0, PurePosixPath(path).stem), *identifiers(tree)]
    return [f"{path}:{line}: {name}" for line, name in names if coined(name) and (path, name) not in NOT_OURS]


def test_no_name_of_the_product_is_coined() -> None:
    found = [words for room in ROOMS for path, _, tree in parsed(room) for words in coined_names(path, tree)]
    assert not found, "\n".join(found)


def test_no_class_of_the_tests_has_a_coined_name() -> None:
    classes = ((path, node) for path, _, tree in parsed("tests") for node in walked(tree))
    found = [f"{path}:{c.lineno}: {c.name}" for path, c in classes if isinstance(c, ast.ClassDef) and coined(c.name)]
    assert not found, "\n".join(found)


def test_names_that_are_not_ours_are_still_there() -> None:
    there = {(path, name) for room in ROOMS for path, _, tree in parsed(room) for _, name in identifiers(tree)}
    assert NOT_OURS.keys() <= there


MADE_UP = """
from a import BoxTold as B, b as told_files
class _JobsTold:
    told_utc_s: float
    def _say(self, thing, *, what): self._told = f(tell=1)
    async def let_in(self): return [TOLD_S for things in self.x]
class KeptJob: asker: FleetAsker | _BookEntry
class World: book = RayKept
"""


def test_the_rule_finds_each_kind_of_name() -> None:
    found = coined_names("web/told_words.py", ast.parse(MADE_UP))
    names = {words.rpartition(" ")[2] for words in found}
    of_parts = {"told_words", "told_files", "told_utc_s", "_told", "TOLD_S", "tell", "thing", "things"}
    of_classes = {"_JobsTold", "KeptJob", "FleetAsker", "_BookEntry", "World", "RayKept"}
    assert names == of_parts | of_classes | {"_say", "let_in"}


@pytest.mark.parametrize(
    "name", ["say", "untold", "something", "intellect", "world", "kept", "job_book", "Kepler", "thinking"]
)
def test_other_words_are_no_coined_names(name: str) -> None:
    assert not coined(name)
