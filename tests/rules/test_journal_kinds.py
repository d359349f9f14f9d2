"""The list of journal kinds is the whole list: code writes no other, the page and the docs have each of them."""

from __future__ import annotations

import ast
import re

from parsed_code import REPO, parsed, walked

from edge.core.journal_kinds import JOURNAL_KINDS, KINDS_BY_SUBJECT, LIVE_ONLY_KINDS

ALL = JOURNAL_KINDS | LIVE_ONLY_KINDS


def _literals() -> set[str]:
    """Every string in the code that stands for itself, but in the list of kinds."""
    found: set[str] = set()
    for room in ("edge", "scheduler"):
        for path, _, tree in parsed(room):
            if not path.endswith("/journal_kinds.py"):
                nodes = walked(tree)
                found |= {n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    return found


def test_every_kind_is_written_somewhere() -> None:
    assert ALL - _literals() == set()


def test_the_table_by_subject_has_every_kind_of_a_subject() -> None:
    for subject, kinds in KINDS_BY_SUBJECT.items():
        assert kinds == {kind for kind in ALL if kind.split(".")[0] == subject}


def test_no_kind_is_put_together_where_it_is_written() -> None:
    """An f-string would hide a kind from the type checker, and from a search for it."""
    hidden = []
    for room in ("edge", "scheduler", "web"):
        for path, _, tree in parsed(room):
            for node in walked(tree):
                if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.JoinedStr):
                    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
                    if called in ("note", "_note", "_on_event", "send_live", "_send_live"):
                        hidden.append(f"{path}:{node.lineno}")
    assert not hidden


def test_the_page_has_words_for_each_kind_and_for_no_other() -> None:
    source = (REPO / "web/frontend/src/words.ts").read_text(encoding="utf-8")
    table = source.split("const KNOWN", 1)[1].split("\n};", 1)[0]
    assert set(re.findall(r'^  "?([a-z_.]+)"?: ', table, re.MULTILINE)) == ALL


def test_the_kinds_that_the_page_offers_as_filters_are_kinds() -> None:
    source = (REPO / "web/frontend/src/pages/system_journal.tsx").read_text(encoding="utf-8")
    offered = re.findall(r'"([a-z_.]+)"', source.split("const KINDS = [", 1)[1].split("]", 1)[0])
    assert offered
    assert set(offered) <= JOURNAL_KINDS


def test_the_docs_name_each_kind_once() -> None:
    rows = [
        line.split("|")[1]
        for line in (REPO / "docs/journal.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("| `")
    ]
    named = [kind for row in rows for kind in re.findall(r"`([a-z_.]+)`", row)]
    assert sorted(named) == sorted(ALL)
