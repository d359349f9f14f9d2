"""`magpie counts`: what it asks of an appliance, and where the answer goes."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from http_kit import QuietHandler, answering

from edge.commands import counts
from edge.core.errors import InvalidValue, MagpieError
from web.examples.counts import COUNTS

ASKED: list[str] = []


class _Appliance(QuietHandler):
    def do_GET(self) -> None:
        ASKED.append(self.path)
        refused = "parquet" in self.path
        body = (
            b'{"error": {"message": "pyarrow is missing"}}' if refused else b"a,b\r\n" if ".csv" in self.path else b""
        )
        self.send_response(409 if refused else 200)
        self.end_headers()
        self.wfile.write(body or (b"<!doctype html>" if "report" in self.path else json.dumps(COUNTS).encode()))


@pytest.fixture
def url() -> Iterator[str]:
    ASKED.clear()
    with answering(_Appliance) as address:
        yield address


def run(*words: str) -> int:
    parser = argparse.ArgumentParser()
    counts.add_arguments(parser)
    return counts.run(parser.parse_args(["--camera", "north", *words]))


TIMES = ("--from", "2026-11-26T00:00+00:00", "--to", "2026-11-27T00:00+00:00")


def test_a_table_a_file_and_a_report(url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*TIMES, "--url", url) == 0
    assert "49 % of the time watched" in capsys.readouterr().out
    out = tmp_path / "counts.csv"
    assert run(*TIMES, "--url", url, "--format", "csv", "--out", str(out)) == 0
    assert out.read_bytes() == b"a,b\r\n"
    page = tmp_path / "day.html"
    assert run("--day", "2026-11-25", "--url", url, "--out", str(page), "report") == 0
    assert page.read_text() == "<!doctype html>"
    assert [path.split("?")[0].removeprefix("/api/v1/cameras/north/counts") for path in ASKED] == [
        "", ".csv", "/report.html",
    ]  # fmt: skip
    assert "from=1795651200.0&to=1795737600.0&step=hour" in ASKED[1]
    assert ASKED[2].endswith("?day=2026-11-25")


def test_what_cannot_be_done_is_said_and_leaves_no_file(url: str, tmp_path: Path) -> None:
    out = tmp_path / "counts.parquet"
    with pytest.raises(MagpieError, match="pyarrow is missing"):
        run(*TIMES, "--url", url, "--format", "parquet", "--out", str(out))
    assert not list(tmp_path.iterdir())
    for words, field in (
        ((*TIMES, "--out", str(out)), "--out"),
        ((*TIMES, "--format", "csv", "--out", str(tmp_path / "no" / "where")), "--out"),
        (("--to", "2026-11-27"), "--from"),
        (("--from", "soon", "--to", "2026-11-27"), "--from"),
        (("report",), "--day"),
        (("report", "--day", "2026-02-30"), "--day"),
    ):
        with pytest.raises(InvalidValue) as refused:
            run(*words, "--url", url)
        assert refused.value.path == field
