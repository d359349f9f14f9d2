"""`magpie fleet submit SITE JOB.json | jobs SITE | cancel SITE ID`: the fleet's jobs, asked for by this box's agent."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from edge.core.errors import InvalidValue
from edge.core.fleet_job_file import submitted_job
from edge.core.fleet_jobs import FleetJobReport, JobOrdered, JobsAsk, JobsReport, JobSubmission, JobWithdrawal
from edge.fleet.folder import FleetFolder
from edge.fleet.own_agent import ask_own_agent
from edge.fleet.wire import encoded
from edge.settings import FleetSettings, SiteSettings

_OVER: Final = ("ended", "withdrawn", "refused")


def _submit(args: argparse.Namespace, site: SiteSettings, fleet: FleetSettings) -> int:
    given = _read(args.job)
    submitted_job(given)
    asked = JobSubmission(given, _person())
    answer = asyncio.run(ask_own_agent(FleetFolder(Path(site.data_dir)), fleet, "/jobs/submit", asked, JobOrdered))
    _print(f"The fleet keeps the job {answer.job.id}. magpie fleet jobs SITE shows what becomes of it.")
    return 0


def _jobs(args: argparse.Namespace, site: SiteSettings, fleet: FleetSettings) -> int:
    report = asyncio.run(ask_own_agent(FleetFolder(Path(site.data_dir)), fleet, "/jobs", JobsAsk(), JobsReport))
    _print(encoded(report).decode() if args.json else jobs_in_words(report))
    return 0


def _cancel(args: argparse.Namespace, site: SiteSettings, fleet: FleetSettings) -> int:
    asked = JobWithdrawal(args.job, _person())
    answer = asyncio.run(ask_own_agent(FleetFolder(Path(site.data_dir)), fleet, "/jobs/withdraw", asked, JobOrdered))
    _print(f"The job {answer.job.id} is withdrawn ({answer.job.phase}).")
    return 0


def jobs_in_words(report: JobsReport, ended: bool = True) -> str:
    """The jobs for people; without `ended` only those that are open."""
    why = f": {report.engine.why}" if report.engine.why else ""
    lines = [f"jobs: kept by {report.head}, engine {report.engine.kind} {report.engine.phase}{why}"]
    rows = [job for job in report.jobs if ended or job.phase not in _OVER]
    lines += [line for job in rows for line in _job_lines(job)]
    for tenant in report.tenants:
        lines.append(
            f"  tenant {tenant.tenant}: wants {tenant.wanted:g} of {tenant.resource or 'nothing'}, its fair share is "
            f"{tenant.share:g}, it has {tenant.used:g}"
        )
    for box, count in sorted(report.elsewhere.items()):
        lines.append(f"  {box} keeps {count} open jobs since it was the head; they run when it is the head again")
    if report.damaged:
        lines.append(f"  the jobs that {report.head} kept could not be read and were put aside")
    return "\n".join(lines)


def _job_lines(job: FleetJobReport) -> list[str]:
    boxes = ", ".join(sorted(set(job.running.values())))
    where = f", {len(job.running)} run on {boxes}" if job.running else ""
    lines = [f"  {job.id:24} {job.phase:10} {len(job.done_on)} of {job.tasks} tasks done{where}"]
    if job.why is not None:
        lines.append(f"  {'':24} {'refused' if job.phase == 'refused' else 'waits'}: {job.why.words()}")
    for task, raised in sorted(job.raised.items())[:3]:
        lines.append(f"  {'':24} task {task} failed {raised.failures} times, it is tried again: {raised.why}")
    return lines


def _read(name: str) -> Mapping[str, Any]:
    """The JSON of a file, or of standard input. Raises InvalidValue."""
    try:
        text = sys.stdin.read() if name == "-" else Path(name).read_text(encoding="utf-8")
        value = json.loads(text)
    except OSError as error:
        raise InvalidValue("JOB", name, f"a file that can be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise InvalidValue("JOB", name, f"JSON ({error})") from None
    if not isinstance(value, dict):
        raise InvalidValue("JOB", name, "a JSON object")
    return value


def _person() -> str:
    """The account that gives the order."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "command line"


def _print(text: str) -> None:
    sys.stdout.write(text + "\n")


JOB_ACTIONS: Final[dict[str, Callable[[argparse.Namespace, SiteSettings, FleetSettings], int]]] = {
    "submit": _submit, "jobs": _jobs, "cancel": _cancel,
}  # fmt: skip
