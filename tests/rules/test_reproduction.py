"""docs/reproduction.md is made of the results, and of nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.reproduction import PAGE, PAPERS, NotRedone, Redone, Reproduction, page, results, source_of, spread

FIGURE = Redone(
    "Figure 1", "cost", "half", "40 pipelines", ("", "paper", "here"), (("published", 0.5, 0.52),), "agrees", "so"
)
TABLE = NotRedone("Table 1", "machines", "drawing", "a list of parts")
DONE = Reproduction("harpagon", "python -m x", "2026-01-02T03:04:05Z", "a machine", (0, 1), (FIGURE, TABLE), "ab12")


def test_the_page_is_what_the_results_give() -> None:
    assert PAGE.read_text() == page(results()), "run: python -m benchmarks.reproduction"


def test_a_result_is_read_as_it_was_written_and_a_changed_number_changes_the_page(tmp_path: Path) -> None:
    path = tmp_path / "reproduce_harpagon.json"
    path.write_text(json.dumps(DONE.to_json()))
    assert results(tmp_path) == (DONE,)
    path.write_text(path.read_text().replace("0.52", "0.53"))
    assert page(results(tmp_path)) != page([DONE])


def test_results_are_of_the_scripts_at_hand() -> None:
    stored = {one.name: one.source for one in results() if one.source is not None}
    assert set(stored) == set(PAPERS)
    for name, source in stored.items():
        assert source == source_of(name), f"run: python -m benchmarks.reproduce_{name}"


def test_the_summary_counts_verdicts_and_causes() -> None:
    other = replace(DONE, name="ekya", exhibits=(replace(FIGURE, verdict="differs"), replace(TABLE, cause="device")))
    lines = page([other, DONE]).splitlines()
    assert "| [Harpagon](#harpagon) | 2 | 1 | 1 | 0 | 0 | 1 measures nothing |" in lines
    assert "| **all** | 4 | 2 | 1 | 0 | 1 | 1 needs a GPU or a cluster; 1 measures nothing |" in lines


def test_wrong_results_are_refused_with_the_field(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"Figure 1: rows: .* has 2 cells; allowed: 3"):
        replace(FIGURE, rows=(("published", 1),))
    with pytest.raises(ValueError, match="Figure 1: verdict: 'good'; allowed: agrees"):
        replace(FIGURE, verdict="good")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="Table 1: reason: ' '; allowed: text"):
        replace(TABLE, reason=" ")
    with pytest.raises(ValueError, match="exhibits: 'Table 1' is given 2 times"):
        replace(DONE, exhibits=(TABLE, TABLE))
    given = DONE.to_json()
    del given["exhibits"][0]["why"]
    (tmp_path / "reproduce_harpagon.json").write_text(json.dumps(given))
    with pytest.raises(ValueError, match=r"reproduce_harpagon.json: 'why' is missing"):
        results(tmp_path)


def test_spread_names_least_and_largest_only_where_they_differ() -> None:
    assert spread([1.0, 2.0, 3.0]) == "2.0 (1.0 to 3.0)"
    assert spread([2.001, 2.002]) == "2.0"
