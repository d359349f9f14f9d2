"""No module of the page imports itself over others; a page that is loaded when it is shown counts, too."""

from __future__ import annotations

import os
import re
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from parsed_code import REPO

SOURCE = REPO / "web" / "frontend" / "src"
_IMPORT = re.compile(r"(?:\bfrom|\bimport\()\s*\"(\.[^\"]*)\"")


def imports(module: str, text: str) -> set[str]:
    """The modules of the page that it imports, types included, by their names without ending."""
    folder = Path(module).parent
    return {os.path.normpath(folder / name) for name in _IMPORT.findall(text) if not name.endswith((".css", ".svg"))}


def test_the_page_has_no_circles() -> None:
    sources = [p for p in SOURCE.rglob("*.ts*") if not p.name.endswith(".d.ts")]
    graph = {p.relative_to(SOURCE).with_suffix("").as_posix(): p for p in sources}
    needs = {name: imports(name, path.read_text(encoding="utf-8")) for name, path in graph.items()}
    assert sum(map(len, needs.values())) > 200
    assert {name for found in needs.values() for name in found} <= set(graph)
    TopologicalSorter(needs).prepare()


def test_a_circle_is_found() -> None:
    needs = {
        "pages/index": imports("pages/index", 'const a = () => import("./wall");'),
        "pages/wall": imports("pages/wall", 'import type { A } from "../parts/a";'),
        "parts/a": imports("parts/a", 'export { B } from "../pages/index";'),
    }
    with pytest.raises(CycleError):
        TopologicalSorter(needs).prepare()
