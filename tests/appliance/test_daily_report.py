"""The daily report: what is in the file, that it needs nothing else, and that each day is reported once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path

import pytest

from edge.appliance.answers.counts import ComparisonAnswer, CountsAnswer
from edge.appliance.answers.read import read
from edge.appliance.count_report import ReportedDay, report_html
from edge.appliance.counts import ObjectCounts
from edge.appliance.counts_opened import open_counts
from edge.core.alarms import Fact
from edge.core.clock import ManualClock
from edge.core.counts import MOST_REPORT_BYTES, Count, CountedMinute, DayReport, Place, WatchedTime
from edge.core.errors import InvalidValue, NotFound
from edge.outputs.messages import Wanted, message_id, size_of
from edge.settings import CameraSettings, DailyReportSettings, SiteSettings, parse
from edge.store.store import Store
from scheduler.counts.report_days import day_bounds
from web.examples.counts import COMPARED, COUNTS

NASTY = '<img src="https://example.org/x" onerror=alert(1)>&'
CAMERA = {
    "id": "north", "name": "North & <b>", "url": "rtsp://192.0.2.1/n", "classes": ["car"],
    "lines": [{"name": "gate", "start": [0.2, 0.5], "end": [0.8, 0.5]}],
}  # fmt: skip
DAY = date(2026, 11, 24)


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def test_the_file_needs_nothing_else_and_names_bring_no_tags() -> None:
    row = COUNTS["totals"][0] | {"name": NASTY, "class": NASTY}
    moved = row | {"kind": "movement", "way": NASTY}
    zone = row | {"kind": "zone", "way": "", "seconds": 60.0, "most": 3, "corrected": None}
    found = read(CountsAnswer, COUNTS | {"totals": [row, moved, zone]})
    about = ReportedDay("depot", "north", NASTY, "2026-11-24", UTC, 1_900_000_000.0)
    text = report_html(about, found, read(ComparisonAnswer, COMPARED))
    tags = _Tags()
    tags.feed(text)
    names = {tag for tag, _ in tags.found}
    assert not names & {"script", "link", "img", "iframe", "a", "b"}
    assert not [a for _, a in tags.found if a.keys() & {"src", "href", "onerror", "onload"}]
    assert "Not watched in the hours that begin at" in text
    assert ">?</text>" in text, "an hour without watching has no number"
    assert "44 (40 to 48)" in text
    assert "not known" in text


def test_what_is_to_come_of_a_day_is_not_called_unwatched() -> None:
    """Made 30 minutes into the second hour; all was watched that is written."""
    first = COUNTS["buckets"][0]["start_utc_s"]
    parts = (1.0, 0.475, 0.0)
    hours = [{**COUNTS["buckets"][0], "start_utc_s": first + 3600 * n, "watched": w} for n, w in enumerate(parts)]
    day = {"from_utc_s": first, "to_utc_s": first + 3 * 3600, "watched": sum(parts) / 3, "buckets": hours}
    beside = COMPARED | {"buckets": [{**COMPARED["buckets"][0], "start_utc_s": first + 3600 * n} for n in range(3)]}
    about = ReportedDay("depot", "north", "North", "2026-11-24", UTC, first + 1.5 * 3600)
    text = report_html(about, read(CountsAnswer, COUNTS | day), read(ComparisonAnswer, beside))
    assert "Watched for 100 % of the day so far." in text
    assert "Not watched in the hours" not in text
    assert "url(#unseen)" not in text.split("</defs>")[1]


@dataclass
class Box:
    """Reports of one camera over a real store; a run ends and another begins."""

    store: Store
    folder: Path
    sent: list[DayReport] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    facts: list[Fact] = field(default_factory=list)
    kept: bool = True
    settings: DailyReportSettings = field(default_factory=lambda: DailyReportSettings(keep_days=2))

    def begun(self) -> ObjectCounts:
        cameras = {"north": parse(CameraSettings, CAMERA)}
        site = SiteSettings(site="depot", data_dir=str(self.folder), daily_report=self.settings)

        async def kept() -> bool:
            return self.kept

        return open_counts(
            site, self.store, ManualClock(0.0), lambda _, words: self.complaints.append(words), lambda: cameras,
            self._send, kept, lambda: True, self.facts.append,
        )  # fmt: skip

    def _send(self, event: CountedMinute | DayReport) -> None:
        if isinstance(event, DayReport):
            self.sent.append(event)

    def files(self) -> list[str]:
        return sorted(p.relative_to(self.folder / "reports").as_posix() for p in self.folder.rglob("*.html"))


def at(day: date, hour: float) -> float:
    return day_bounds(day, None)[0] + 3600 * hour


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    with Store(None, tmp_path) as store:
        noon = int(at(DAY, 12.0)) // 3600 * 3600
        gate = Count("north", noon, Place("line", "gate", "forward"), "car", 7)
        store.counts.add_counts([gate], [WatchedTime("north", noon, 3600.0, 9)], [])
        yield Box(store, tmp_path)


async def test_a_day_is_reported_once_also_over_a_restart_and_after_a_night_without_the_box(box: Box) -> None:
    reports = box.begun()
    await reports.look(at(DAY, 30.0 - 0.01))
    assert box.sent == []
    await reports.look(at(DAY, 30.0))
    await reports.look(at(DAY, 30.1))
    await box.begun().look(at(DAY, 31.0))
    assert [(r.camera, r.day) for r in box.sent] == [("north", "2026-11-24")]
    assert [row["objects"] for row in box.sent[0].totals] == [7]
    assert box.files() == ["2026-11-24/north.html"]
    page = (box.folder / "reports" / "2026-11-24" / "north.html").read_text(encoding="utf-8")
    assert "North &amp; &lt;b&gt;" in page
    await box.begun().look(at(DAY, 24.0 * 4 + 7.0))
    assert [r.day for r in box.sent] == [(DAY + timedelta(days=n)).isoformat() for n in range(4)]
    assert box.files() == ["2026-11-25/north.html", "2026-11-26/north.html", "2026-11-27/north.html"]


async def test_a_report_that_could_not_be_queued_is_made_again_with_the_same_id(box: Box) -> None:
    reports, box.kept = box.begun(), False
    await reports.look(at(DAY, 31.0))
    assert any("2026-11-24" in words for words in box.complaints)
    await reports.look(at(DAY, 31.01))
    assert len(box.sent) == 1, "not at once"
    await reports.look(at(DAY, 31.2))
    assert len(box.sent) == 1, "it waits in the queue"
    box.kept = True
    await box.begun().look(at(DAY, 31.5))
    first, again = box.sent
    assert message_id("depot", first) == message_id("depot", again) != message_id("yard", first)
    await reports.look(at(DAY, 32.0))
    assert len(box.sent) == 2


async def test_the_message_of_a_report(box: Box) -> None:
    await box.begun().look(at(DAY, 31.0))
    (made,) = box.sent
    assert Wanted(kinds=frozenset({"report"}), phases=frozenset({"new"})).takes(made)
    assert made.to_json()["html"] == made.html
    many = [{"name": "ж" * 60, "objects": n} for n in range(5000)]
    for totals, html in ((many, "x"), ([], '"' * MOST_REPORT_BYTES), (many[:300], "ж" * 19_000)):
        row = DayReport("north", "2026-11-24", 0, 1, 1.0, totals, html).to_json()
        assert (row["totals"] is None, row["html"] is None) == (len(totals) > 300, html[0] == '"')
        assert size_of(row) > 0


def test_days_that_cannot_be_reported(box: Box) -> None:
    reports = box.begun()
    with pytest.raises(InvalidValue, match="day"):
        reports.day_report("north", date(1, 1, 1))
    with pytest.raises(NotFound, match="south"):
        reports.day_report("south", DAY)
    assert datetime.fromtimestamp(at(DAY, 0)).date() == DAY
