"""Prose names its subject: no clause of a docstring, and no sentence of a comment, the docs or the page, begins with
"what", "who", "whoever" or "whatever" unless it asks. Where a noun can stand, no "nobody" and no "somebody" does."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from parsed_code import REPO, ROOMS, parsed, walked

#: At the start, or behind the end of a clause.
CLAUSE = re.compile(r"(?:^|[.:;] )(?:what|who|whoever|whatever)\b", re.IGNORECASE)
_SUBJECT = r"(?:What|Who|Whoever|Whatever)\b"
#: Of a comment in Python: at its start, or behind the end of a sentence.
COMMENT = re.compile(rf"#:? {_SUBJECT}(?!.*\?)|#.*[.!] {_SUBJECT}(?!.*\?)")
#: Of a paragraph of the docs.
SENTENCE = re.compile(rf"(?:^|[.!?] |\*\*){_SUBJECT}[^.?!]*(?:[.!]|$)")
#: A person that the text does not know: also in names, which are between underscores.
PRONOUN = re.compile(r"(?<![a-z])(?:nobody|somebody|whoever)(?![a-z])", re.IGNORECASE)
#: Of the page: a comment, or a text that is a whole sentence (a title has no full stop).
SHOWN = re.compile(rf"(?:// |/\*\* |^ \* |[.!] |>|[\"`]){_SUBJECT} [^?<\"`]*[.]")


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


def lines_without_subject(path: str, text: str, pattern: re.Pattern[str]) -> list[str]:
    """Each line with a sentence that begins so."""
    return [f"{path}:{n}: {line.strip()}" for n, line in enumerate(text.split("\n"), 1) if pattern.search(line)]


def paragraphs(text: str) -> Iterator[str]:
    """Those of a document, and its rows and items, each on one line; no headings and no code."""
    for block in re.split(r"\n\s*\n|\n(?=[-|*] )", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
        if not block.startswith(("#", "    ")):
            yield " ".join(block.split()).removeprefix("- ")


def paragraphs_without_subject(path: str, text: str) -> list[str]:
    """Each sentence that begins so."""
    return [f"{path}: {found[0][:80]}" for one in paragraphs(text) for found in SENTENCE.finditer(one)]


def test_docstrings_name_their_subject() -> None:
    found = [words for room in ROOMS for path, _, tree in parsed(room) for words in without_subject(path, tree)]
    assert not found, "\n".join(found)


def test_comments_name_their_subject() -> None:
    modules = [(path, text) for room in ROOMS for path, text, _ in parsed(room)]
    found = [words for path, text in modules for words in lines_without_subject(path, text, COMMENT)]
    assert not found, "\n".join(found)


def test_the_docs_name_their_subject() -> None:
    # The captions of docs/reproduction.md are the papers'; the changelog has what was said at its time.
    documents = [p for p in (REPO / "docs").rglob("*.md") if p.name != "reproduction.md"]
    documents += [REPO / "README.md", REPO / "CONTRIBUTING.md"]
    found = [words for path in documents for words in paragraphs_without_subject(_name(path), path.read_text())]
    assert not found, "\n".join(found)


def test_the_page_names_its_subject() -> None:
    sources = sorted((REPO / "web/frontend/src").rglob("*.ts*"))
    found = [words for path in sources for words in lines_without_subject(_name(path), path.read_text(), SHOWN)]
    assert not found, "\n".join(found)


def test_a_noun_stands_where_one_can() -> None:
    modules = [(path, text) for room in ROOMS for path, text, _ in parsed(room)]
    modules += [(_name(path), path.read_text()) for path in sorted((REPO / "web/frontend/src").rglob("*.ts*"))]
    found = [words for path, text in modules for words in lines_without_subject(path, text, PRONOUN)]
    assert not found, "\n".join(found)


def _name(path: Path) -> str:
    return path.relative_to(REPO).as_posix()


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


def test_the_rule_finds_sentences_without_a_subject() -> None:
    code = "a = 1  # What is left\n#: Known. Who asks is named.\n# What for?\n# a row of what came\n"
    assert len(lines_without_subject("made_up.py", code, COMMENT)) == 2
    text = (
        "# What is shown\n\nA box. What it\nkeeps stays. What for? **Who may.** All.\n\n| What | Who |\n- What is it?"
    )
    assert paragraphs_without_subject("a.md", text) == ["a.md: . What it keeps stays.", "a.md: **Who may."]
    page = '/** What it is. */\ntitle: "What is sent",\n<p>What waits is gone.</p>\n<h3>What if?</h3>\nx="Who decides."'
    assert len(lines_without_subject("made_up.tsx", page, SHOWN)) == 3
    names = "NOBODY = 0\nself._nobody\n# Held by somebody.\nno body, some bodies\nnobodys\n"
    assert len(lines_without_subject("made_up.py", names, PRONOUN)) == 3
