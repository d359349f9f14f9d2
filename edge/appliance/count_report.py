"""A camera's day of counts as one HTML file that needs nothing else: no script, no link, pictures inline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, tzinfo
from html import escape
from typing import Final

from edge.appliance.answers.counts import ComparisonAnswer, CountAnswer, CountsAnswer
from scheduler.counts.comparison import LEAST_WATCHED
from scheduler.counts.rules import HOUR_S

_STYLE: Final = """
body{font:15px/1.45 system-ui,sans-serif;color:#12242b;background:#fff;max-width:60rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .4rem}.quiet{color:#52646c}
.note{border-left:4px solid #6d4a00;padding:.4rem .8rem;background:#fdeec9}
table{border-collapse:collapse;width:100%}th,td{padding:.3rem .6rem;border-bottom:1px solid #d5dee1;text-align:left}
td.n,th.n{text-align:right}svg{width:100%;height:auto}small{display:block;color:#52646c}.scroll{overflow-x:auto}
"""
_HATCHING: Final = (
    '<defs><pattern id="unseen" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="2" height="6" fill="#84959c"/></pattern></defs>'
)
#: Of the picture of a day: the height of the highest bar, and the room of an hour.
_HEIGHT: Final = 160.0
_STEP: Final = 36.0
#: A minute is written when it is over, some seconds later.
_WRITTEN_AFTER_S: Final = 90.0


@dataclass(frozen=True)
class ReportedDay:
    """The day that a report is about: `day` as 2026-11-26 in the time zone `zone` (None: the box's own), of a camera by
    id and name at a site; `made_utc_s` is when it was made."""

    site: str
    camera: str
    name: str
    day: str
    zone: tzinfo | None
    made_utc_s: float


def report_html(about: ReportedDay, found: CountsAnswer, beside: ComparisonAnswer) -> str:
    """The whole file. `found` and `beside` are of the same hours."""
    shown = about.name or about.camera
    made = datetime.fromtimestamp(about.made_utc_s, about.zone).isoformat(sep=" ", timespec="minutes")
    body = [
        f"<h1>{escape(shown)}, {about.day}</h1>",
        f'<p class="quiet">Counts of camera {escape(about.camera)} at {escape(about.site)}. Made {made} by Magpie.</p>',
        _missing(about, found),
        '<p class="note">A first version: on drawn streets counts are off by a fifth, corrected ones by an '
        "eighth. Look at changes rather than at amounts.</p>",
        _passed(found, beside),
        _bars(about, found, beside),
        _movements(found),
        _zones(found),
        '<h2>How to read it</h2><p class="quiet">Each object counts once at a place. The corrected number is what the '
        "teacher's labels make of the count, with the interval that holds the true number with 90 %; "
        "“not known”: too few labels. The week before is compared over the hours that were watched in both weeks "
        f"({sum(b.compared for b in beside.buckets)} of {len(beside.buckets)}), as counted.</p>",
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{escape(shown)}, {about.day}: counts</title><style>{_STYLE}</style></head><body>"
        + "".join(body)
        + "</body></html>\n"
    )


def _missing(about: ReportedDay, found: CountsAnswer) -> str:
    """How much was watched, and the hours that were not; of a day that is not over, as far as it is written."""
    dark = [
        f"{_hour(about, b.start_utc_s)}{f' ({100 * unseen:.0f} %)' if b.watched > 0 else ''}"
        for b in found.buckets
        if (unseen := _passed_part(about, b.start_utc_s) - b.watched) > 0.01
    ]
    passed_s = sum(HOUR_S * _passed_part(about, b.start_utc_s) for b in found.buckets)
    part = min(1.0, found.watched * (found.to_utc_s - found.from_utc_s) / passed_s) if passed_s > 0 else 0.0
    said = f"Watched for {100 * part:.0f} % of the day{'' if passed_s >= HOUR_S * len(found.buckets) else ' so far'}."
    if not dark:
        return f"<p>{said}</p>"
    return (
        f'<p class="note">{said} Not watched in the hours that begin at {", ".join(dark)}: what passed then is in no '
        "number here.</p>"
    )


def _passed_part(about: ReportedDay, start_s: int) -> float:
    """The part of an hour that was over, and written, when the report was made."""
    return min(1.0, max(0.0, (about.made_utc_s - _WRITTEN_AFTER_S - start_s) / HOUR_S))


def _hour(about: ReportedDay, start_s: int) -> str:
    return datetime.fromtimestamp(start_s, about.zone).strftime("%H:%M")


def _table(titles: Sequence[str], numbers: int, rows: Iterable[Sequence[object]]) -> str:
    """`numbers`: so many of the last columns are numbers, to the right."""
    first = len(titles) - numbers

    marks = ["" if n < first else ' class="n"' for n in range(len(titles))]

    def cells(row: Sequence[object], tag: str) -> str:
        return "".join(f"<{tag}{m}>{escape(str(cell))}</{tag}>" for m, cell in zip(marks, row, strict=True))

    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in rows)
    return (
        f'<div class="scroll"><table><thead><tr>{cells(titles, "th")}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _true(row: CountAnswer) -> str:
    true = row.corrected
    return "not known" if true is None else f"{true.value:.0f} ({true.low:.0f} to {true.high:.0f})"


def _passed(found: CountsAnswer, beside: ComparisonAnswer) -> str:
    earlier = {(t.kind, t.name, t.way, t.class_): (t.objects, t.before) for t in beside.totals}
    rows = []
    for t in found.totals:
        if t.kind == "line":
            now, before = earlier.get((t.kind, t.name, t.way, t.class_), (0, 0))
            words = "not known" if beside.compared == 0 else f"{before}, now {now}"
            rows.append((t.name, t.way, t.class_, t.objects, _true(t), words))
    if not rows:
        return "<h2>Passed</h2><p>Nothing passed a line in the time that was watched.</p>"
    return "<h2>Passed</h2>" + _table(("Line", "Way", "Class", "Counted", "Corrected (90 %)", "A week before"), 3, rows)


def _bars(about: ReportedDay, found: CountsAnswer, beside: ComparisonAnswer) -> str:
    """A bar for each hour: objects over lines. Hatched from the top: the part that was not watched."""
    hours = [sum(c.objects for c in b.counts if c.kind == "line") for b in found.buckets]
    before = [
        None if b.watched_before < LEAST_WATCHED else sum(c.before for c in b.counts if c.kind == "line")
        for b in beside.buckets
    ]
    most = max(1, *hours, *(n for n in before if n is not None))
    parts = []
    for n, (bucket, objects, old) in enumerate(zip(found.buckets, hours, before, strict=True)):
        x, middle, wide = _STEP * n + 2, _STEP * (n + 0.5), _STEP - 4
        parts.append(_bar(x, wide, _HEIGHT - _HEIGHT * objects / most, _HEIGHT, "#00705a"))
        unseen = _passed_part(about, bucket.start_utc_s) - bucket.watched
        if unseen > 0.01:
            parts.append(_bar(x, wide, 0.0, _HEIGHT * unseen, "url(#unseen)"))
        if old is not None:
            parts.append(
                _bar(x, wide, _HEIGHT - _HEIGHT * old / most - 1, _HEIGHT - _HEIGHT * old / most + 1, "#c97a00")
            )
        to_come = bucket.watched == 0 and _passed_part(about, bucket.start_utc_s) <= 0
        label = "" if to_come else "?" if bucket.watched == 0 else str(objects)
        parts.append(f'<text x="{middle:.0f}" y="{_HEIGHT + 15:.0f}">{label}</text>')
        hour = _hour(about, bucket.start_utc_s)[:2]
        parts.append(f'<text x="{middle:.0f}" y="{_HEIGHT + 30:.0f}" fill="#52646c">{hour}</text>')
    return (
        '<h2>By hour</h2><p class="quiet">Objects over lines, all classes, as counted. Hatched: not watched. '
        "The mark across a bar is the week before.</p>"
        f'<svg viewBox="0 0 {_STEP * len(hours):.0f} {_HEIGHT + 36:.0f}" role="img" font-size="11" '
        f'text-anchor="middle" aria-label="Objects over lines by hour">{_HATCHING}{"".join(parts)}</svg>'
    )


def _bar(x: float, wide: float, top: float, bottom: float, fill: str) -> str:
    return f'<rect x="{x:.0f}" y="{top:.1f}" width="{wide:.0f}" height="{bottom - top:.1f}" fill="{fill}"/>'


def _movements(found: CountsAnswer) -> str:
    moved = [t for t in found.totals if t.kind == "movement"]
    if not moved:
        return ""
    to = sorted({t.way for t in moved})
    rows = []
    for zone in sorted({t.name for t in moved}):
        cells = []
        for way in to:
            here = [t for t in moved if (t.name, t.way) == (zone, way)]
            small = "".join(f"<small>{escape(t.class_)}: {_true(t)}</small>" for t in here)
            cells.append(f"<td>{sum(t.objects for t in here)}{small}</td>" if here else "<td></td>")
        rows.append(f"<tr><th>{escape(zone)}</th>{''.join(cells)}</tr>")
    head = "".join(f"<th>{escape(way)}</th>" for way in to)
    return (
        '<h2>From zone to zone</h2><p class="quiet">From the zone of the row to the zone of the column; below the '
        f'count each class, corrected.</p><div class="scroll"><table><thead><tr><th></th>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _zones(found: CountsAnswer) -> str:
    watched_s = found.watched * (found.to_utc_s - found.from_utc_s)
    rows = [
        (
            t.name, t.class_, t.objects, _true(t), f"{t.seconds / watched_s:.2f}" if watched_s > 0 else "not known",
            t.most, f"{t.standing_s / watched_s:.2f}" if watched_s > 0 else "not known",
        )
        for t in found.totals
        if t.kind == "zone"
    ]  # fmt: skip
    titles = ("Zone", "Class", "Came in", "Corrected (90 %)", "There, mean", "At once, most", "Standing, mean")
    return "<h2>Zones</h2>" + _table(titles, 5, rows) if rows else ""
