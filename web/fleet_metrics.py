"""Metrics of the fleet: lending, and the jobs that its head keeps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import get_args

from prometheus_client.metrics_core import Metric

from edge.core.fleet_jobs import JobOutcome
from web.metric_kinds import Json, counter, gauge


def lending(s: Json) -> Iterator[Metric]:
    """Retrainings, trials and labels that this box lends and borrows."""
    row = s["lending"]
    if not (row["lend"] or row["borrow"]):
        return
    ways = ("lent", "borrowed")
    yield counter(
        "magpie_lending_retrainings", "Retrainings between boxes of the fleet that ended well", ("way",),
        [((way,), row[way]) for way in ways],
    )  # fmt: skip
    yield counter(
        "magpie_lending_profiles", "Cameras whose trials ran on another box of the fleet and ended well", ("way",),
        [((way,), row[f"{way}_profiles"]) for way in ways],
    )  # fmt: skip
    yield counter(
        "magpie_lending_labels", "Pictures that another box of the fleet labelled", ("way",),
        [((way,), row[f"{way}_labels"]) for way in ways],
    )  # fmt: skip
    yield counter(
        "magpie_lending_device_seconds", "Their work, in seconds of this box's device", ("way",),
        [((way,), row[f"{way}_device_s"]) for way in ways],
    )  # fmt: skip
    yield counter(
        "magpie_lending_failures", "Borrowed retrainings, trials and labels that did not come back", ("fault",),
        [((fault,), count) for fault, count in sorted(row["failures"].items())],
    )  # fmt: skip
    yield gauge(
        "magpie_lending_offered_share", "Part of this box's device that others may borrow now", (),
        [((), row["offered_share"])],
    )  # fmt: skip


def box_groups(s: Json) -> Iterator[Metric]:
    """Groups of cameras over boxes."""
    row = s["lending"]["groups"]
    if not row["share"]:
        return
    yield counter(
        "magpie_box_groups_retrainings", "Retrainings here that pictures of other boxes taught", (),
        [((), row["trained"])],
    )  # fmt: skip
    yield counter(
        "magpie_box_groups_students", "Students of other boxes' groups that the gate here judged", ("outcome",),
        [((outcome,), row[outcome]) for outcome in ("taken", "refused")],
    )  # fmt: skip
    yield counter(
        "magpie_box_groups_failures", "Files of other boxes that did not come or were damaged, and late students",
        ("fault",), [((fault,), count) for fault, count in sorted(row["failures"].items())],
    )  # fmt: skip


def fleet_jobs(s: Json) -> Iterator[Metric]:
    """The jobs that this box keeps as the head."""
    row = s["fleet_jobs"]
    if row is None:
        return
    phases = Counter(job["phase"] for job in row["jobs"])
    yield gauge(
        "magpie_fleet_jobs", "Jobs that this box keeps as the head of its fleet", ("phase",),
        [((phase,), phases[phase]) for phase in (*get_args(JobOutcome), "waiting", "running", "stopping")],
    )  # fmt: skip
    yield gauge(
        "magpie_fleet_tasks_running", "Tasks of jobs that have a box", (),
        [((), sum(job["running"] for job in row["jobs"]))],
    )  # fmt: skip
    yield gauge(
        "magpie_fleet_engine_up", "1 while the engine runs jobs; local: 0 while there is no job", (),
        [((), row["engine"]["phase"] == "up")],
    )  # fmt: skip
    yield gauge(
        "magpie_fleet_tenant_amount", "Of the scarcest resource: wanted, fair share, used",
        ("tenant", "resource", "of"),
        [((t["tenant"], t["resource"], of), t[of]) for t in row["tenants"] for of in ("wanted", "share", "used")],
    )  # fmt: skip
