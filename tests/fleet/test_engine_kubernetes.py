"""The engine `kubernetes` as the head opens it: the lease, and a whole fleet on a stand-in API server."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("kubernetes", reason="the Kubernetes client is not installed (magpie-edge[kubernetes])")

from fleet_agents_kit import FleetOfAgents
from kubernetes_kit import api_server, kubeconfig

from edge.core.errors import Conflict, InvalidValue, Unavailable
from edge.core.fleet_jobs import JobOrdered, JobsAsk, JobsReport, JobSubmission
from edge.fleet.engine_kubernetes import RenewedLease
from edge.fleet.own_agent import ask_own_agent

WAIT_S = 100.0


class FakeHead:
    """A candidate that holds what the test sets."""

    def __init__(self) -> None:
        self.is_head, self.holder = False, ""
        self.ticks, self.released = 0, False

    def tick(self) -> bool:
        self.ticks += 1
        return self.is_head

    def release(self) -> None:
        self.released = True


def test_a_lease_of_another_ends_the_engine_and_an_api_server_that_is_away_does_not() -> None:
    head: Any = FakeHead()
    with RenewedLease(head, "b1-x") as lease:
        assert (lease.held, lease.waits) == (False, "the lease is not held yet")
        head.is_head, head.holder = True, "b1-x"
        assert (lease.held, lease.waits) == (True, "")
        lease.check()
        head.is_head = False  # it could not be renewed, and no other box took it
        lease.check()
        head.holder = "b2-y"
        assert lease.waits == "the lease is held by b2-y"
        with pytest.raises(Unavailable, match="b2-y"):
            lease.check()
    assert head.ticks >= 1
    assert head.released


async def report_when(fleet: FleetOfAgents, enough: Any) -> JobsReport:
    """The head's report of the jobs, once it is as wanted."""
    report: Any = None
    try:
        async with asyncio.timeout(WAIT_S):
            while True:
                with contextlib.suppress(Unavailable, Conflict):  # a fleet that has just begun
                    report = await ask_own_agent(
                        fleet.folder("b2"), fleet.settings["b2"], "/jobs", JobsAsk(), JobsReport
                    )
                    if enough(report):
                        return report
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"it did not happen; last: {report}") from None


async def test_jobs_of_a_fleet_are_pods_on_the_nodes_of_its_boxes(tmp_path: Path) -> None:
    with api_server() as (stand_in, address):
        for node in ("n1.yard", "n2.yard", "n3.yard"):
            stand_in.add_node(node, {"cpu": "4", "memory": "16G"})
        spec = {"holderIdentity": "b9-stranger", "leaseDurationSeconds": 2}
        stand_in.leases["magpie-head"] = {"metadata": {"resourceVersion": "1"}, "spec": spec}

        def engine(node: str) -> dict[str, Any]:
            place = {"fleet": "yard", "namespace": "magpie", "image": "magpie:1", "node": node}
            kubernetes = place | {"kubeconfig": str(kubeconfig(tmp_path, address))}
            return {"kind": "kubernetes", "amounts": {"cpu": 2}, "kubernetes": kubernetes}

        async with FleetOfAgents(tmp_path) as fleet:
            await fleet.found("b1", engine=engine("n1.yard"))
            await fleet.join("b2", "b1", engine=engine("n2.yard"))
            waits = await report_when(fleet, lambda report: "b9" in report.engine.why)
            assert (waits.engine.phase, waits.engine.why) == ("starting", "the lease is held by b9-stranger")
            report = await report_when(fleet, lambda report: len(report.engine.boxes) == 2)
            assert (report.engine.kind, report.engine.phase, report.engine.boxes) == ("kubernetes", "up", ("b1", "b2"))
            assert stand_in.leases["magpie-head"]["spec"]["holderIdentity"].startswith("b1-")
            assert fleet.jobs["b2"].engine_pid is None, "the other boxes run nothing of it"

            async def submit(name: str, **fields: Any) -> None:
                job = JobSubmission({"id": name, "demand": {"cpu": 2}, "duration_s": 0.1} | fields, "ada")
                await ask_own_agent(fleet.folder("b2"), fleet.settings["b2"], "/jobs/submit", job, JobOrdered)

            with pytest.raises(InvalidValue) as caught:
                await submit("never", demand={"gpu": 0.5})
            assert caught.value.path == "demand.gpu"
            await submit("pair", tasks=2, gang=True)
            report = await report_when(fleet, lambda report: all(job.phase == "ended" for job in report.jobs))
            boxes = {job.id: {done.box for done in job.done_on.values()} for job in report.jobs}
            assert boxes == {"pair": {"b1", "b2"}}
            answers = [done.answer["held_s"] for job in report.jobs for done in job.done_on.values()]
            assert min(answers) >= 0.1
        assert stand_in.pods == {}
        assert stand_in.leases["magpie-head"]["spec"]["holderIdentity"] == "", "the lease was given back"
