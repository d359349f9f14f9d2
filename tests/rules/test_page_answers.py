"""The page declares no shape of an answer: it reads those that `web.page_types` made of the appliance's types."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath

from parsed_code import REPO

SOURCE = REPO / "web" / "frontend" / "src"
ANSWERS = "answers"
#: Types of an answer that nothing is read of.
NOTHING = frozenset({"null", "undefined", "unknown", "void"})
_ASKS = r"\b(?:ask|useAsked|usePaged)"
_DECLARATION = re.compile(r"^export type (\w+) =", re.MULTILINE)
_PARAMETERS = re.compile(r"(?:\bfunction\s+\w+|=\s*(?:async\s*)?)<(\w+)(?:\s+extends\b|>)")
_NAMES = re.compile(r"^(?:import|export)\s+(?:type\s+)?\{([^}]*)\}\s+from\s+\"(\.[^\"]*)\"", re.MULTILINE)
#: The result of one without a type is of the type that is expected of it, whatever that is.
_UNTYPED = re.compile(r"(?:=>?|\(|\breturn|,|\?|:)\s*(?:await\s+)?" + _ASKS + r"\(")


def page_modules() -> dict[str, str]:
    """Text of each module of the page by its name without ending, from the source's folder."""
    paths = [*SOURCE.rglob("*.ts"), *SOURCE.rglob("*.tsx")]
    return {p.relative_to(SOURCE).with_suffix("").as_posix(): p.read_text(encoding="utf-8") for p in paths}


def declared_answers(modules: Mapping[str, str]) -> Iterator[str]:
    """Each place where the type of something asked is none of the generated ones."""
    for module, text in sorted(modules.items()):
        for at, argument in _arguments(text):
            if not _is_answer(argument, module, modules):
                yield f"{module}:{at}: {argument}"
        for found in _UNTYPED.finditer(text):
            yield f"{module}:{_line(text, found.start())}: no type is said"


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1


def _arguments(text: str) -> Iterator[tuple[int, str]]:
    """Line and type argument of each call."""
    for found in re.finditer(_ASKS + r"<", text):
        if re.search(r"\bfunction\s+$", text[: found.start()]):
            continue
        depth, end = 1, found.end()
        while depth:
            depth += {"<": 1, ">": -1}.get(text[end], 0)
            end += 1
        yield _line(text, found.start()), text[found.end() : end - 1].strip()


def _is_answer(said: str, module: str, modules: Mapping[str, str]) -> bool:
    """Whether a type is a generated one, a list or a part of one, or nothing."""
    if re.search(r"[{}&()<>]", said):
        return False
    return all(_names_answer(part.strip(), module, modules) for part in said.split("|"))


def _names_answer(said: str, module: str, modules: Mapping[str, str]) -> bool:
    name = re.sub(r"(\[(\"\w+\"|number)?\])+$", "", said)
    text = modules[module]
    if name in NOTHING or name in _PARAMETERS.findall(text):
        return True
    if module == ANSWERS:
        return name in _DECLARATION.findall(text)
    alias = re.search(rf"^(?:export )?type {re.escape(name)} =\s*([^;]*);", text, re.MULTILINE)
    if alias is not None:
        return _is_answer(alias[1].strip(), module, modules)
    for names, source in _NAMES.findall(text):
        for one in names.split(","):
            theirs, _, ours = one.strip().removeprefix("type ").partition(" as ")
            if name == (ours or theirs):
                return _names_answer(theirs, _resolved(module, source), modules)
    return False


def _resolved(module: str, source: str) -> str:
    parts = list(PurePosixPath(module).parent.parts)
    for step in PurePosixPath(source).parts:
        if step == "..":
            parts.pop()
        elif step != ".":
            parts.append(step)
    return "/".join(parts)


MADE_UP = {
    "answers": "export type UserAnswer = {\n  name: string;\n};\nexport type Mine = {\n};\n",
    "api": 'import type { UserAnswer } from "./answers";\nexport type { Mine } from "./answers";\n'
    "export type User = UserAnswer;\nexport type Users = User[];\n"
    'export const ask = async <T>(path: string): Promise<T> => get(path);\nconst a = await ask<T>("/x");',
    "pages/users": 'import type { Mine as M, UserAnswer } from "../answers";\n'
    'import type { User, Users } from "../api";\n'
    "interface Row {\n  name: string;\n}\ntype Rows = Row[];\ntype Own = { name: string };\n",
}


def _found(code: str) -> list[str]:
    page = MADE_UP["pages/users"]
    return [
        one.removeprefix(f"pages/users:{_line(page, len(page))}: ")
        for one in declared_answers(MADE_UP | {"pages/users": page + code})
    ]


def test_a_generated_type_is_found_behind_its_aliases() -> None:
    for said in (
        "UserAnswer",
        "UserAnswer[]",
        "User[]",
        "Users",
        "M",
        'User["name"]',
        "User | null",
        "unknown",
        "void",
    ):
        assert _found(f'const a = await ask<{said}>("/users");') == [], said
        assert _found(f'const a = useAsked<{said}>("/users");') == [], said


def test_a_type_that_a_page_declares_is_found() -> None:
    for said in (
        "Row",
        "Row[]",
        "Rows",
        "Own",
        "{ name: string }",
        "User & { more: number }",
        "Gone",
        "Record<string, User>",
    ):
        assert _found(f'const a = await ask<{said}>("/users");') == [said]
        assert _found(f'const a = usePaged<{said}>("/users");') == [said]


def test_a_type_that_is_only_expected_is_found() -> None:
    for code in ('const a: Row = await ask("/x");', 'keep(await ask("/x"));', '() => ask("/x")', 'return ask("/x");'):
        assert _found(code) == ["no type is said"], code
    assert _found('await ask("/x", "DELETE");') == []


def test_the_page_declares_no_answer() -> None:
    modules = page_modules()
    assert len(_DECLARATION.findall(modules[ANSWERS])) > 50
    assert list(declared_answers(modules)) == []
