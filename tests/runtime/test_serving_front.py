"""The front's process as the control process knows it, with a supervisor that only writes down."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from serving_parts import CAPS, Supervised, Written, layout, version

from edge.core.clock import ManualClock
from edge.core.front_messages import (
    ExecutorConnected,
    ExecutorDrained,
    ExecutorGone,
    ExpectExecutor,
    FrontListening,
    FrontSpec,
    ModelTraffic,
    RepositoryCommand,
    TrafficReport,
)
from edge.core.workers import FRONT
from edge.runtime.serving_front import ServingFront, front_share_per_rate
from edge.settings import ServingSettings, WebSettings
from scheduler.gpulets import reorganiser_events as r


class Front:
    def __init__(self, keys: Path | None = Path("/run/keys.json"), **more: object) -> None:
        web = WebSettings.model_validate(
            {"hosts": ["models.example.org"], "tls": {"certificate": "/etc/box.pem", "key": "/etc/box.key"}}
        )
        self.written, self.supervisor, self.clock = Written(), Supervised(), ManualClock(10.0)
        self.expected = {"executor-0": ExpectExecutor("executor-0", "secret")}
        settings = ServingSettings.model_validate({"http": {"port": 0}, "front_share": 0.07, "max_body_mb": 2} | more)
        self.front = ServingFront(
            settings, Path("/run/front.sock"), keys, lambda *_: None, self.supervisor,  # type: ignore[arg-type]
            self.clock, self.expected, self.written.events.append, self.written.note,
            web,
        )  # fmt: skip
        self.reports: list[TrafficReport] = []
        self.commands: list[RepositoryCommand] = []
        self.front.start(lambda now, report: self.reports.append(report), self.commands.append)

    def says(self, message: Any) -> None:
        self.supervisor.started[FRONT.name].on_message(message)

    def spec(self) -> FrontSpec:
        found = self.supervisor.started[FRONT.name].argument()
        assert isinstance(found, FrontSpec)
        return found

    def lost(self) -> None:
        self.supervisor.started[FRONT.name].more["on_lost"]("killed")


def test_it_is_started_with_the_executors_that_may_come_and_again_at_the_same_ports() -> None:
    box = Front()
    spec = box.spec()
    assert (spec.socket, spec.http_port, spec.keys) == ("/run/front.sock", 0, "/run/keys.json")
    assert spec.max_body_bytes == 2 * 2**20
    assert spec.expect == (ExpectExecutor("executor-0", "secret"),)
    assert box.supervisor.started[FRONT.name].share == 0.07
    assert box.supervisor.started[FRONT.name].more["shared"] is False
    box.says(FrontListening(8123, 8124))
    box.expected.clear()
    again = box.spec()
    assert (again.http_port, again.grpc_port, again.expect) == (8123, 8124, ())


def test_where_no_token_is_needed_the_front_knows_the_boxs_names() -> None:
    assert Front().spec().hosts is None
    assert Front(keys=None).spec().hosts == ("models.example.org",)


def test_tls_has_the_pages_certificate_where_it_is_asked_for() -> None:
    assert (Front().spec().certificate, Front().spec().key) == ("", "")
    spec = Front(tls=True).spec()
    assert (spec.certificate, spec.key) == ("/etc/box.pem", "/etc/box.key")


def test_one_that_is_started_again_gets_the_routes_in_force() -> None:
    box = Front()
    box.says(FrontListening(8123))
    assert box.front.up
    assert box.supervisor.sent == [], "there are no routes yet"
    routes = layout(version("a"))
    box.front.route(routes)
    box.lost()
    assert not box.front.up
    box.says(FrontListening(8123))
    assert box.front.up
    assert box.supervisor.sent == [(FRONT.name, routes), (FRONT.name, routes)]


def test_the_reorganiser_hears_of_executors_and_traffic() -> None:
    box = Front()
    report = TrafficReport(10.0, 1.0, 1, (ModelTraffic("a", arrived=3, answered=2, queued=1),), ())
    box.says(ExecutorConnected("executor-0"))
    box.says(ExecutorDrained("executor-0"))
    box.says(ExecutorGone("executor-0", 2))
    box.says(report)
    assert box.written.events == [
        r.ExecutorReady(10.0, "executor-0"),
        r.ExecutorEmptied(10.0, "executor-0"),
        r.ExecutorLost(10.0, "executor-0", "its connection ended"),
        r.TrafficMeasured(10.0, report),
    ]
    assert box.written.notes == [("serving.requests_failed", {"executor": "executor-0", "requests": 2})]
    assert (box.reports, box.front.traffic) == ([report], report)
    assert box.front.counts.total("a").answered == 2


def test_requests_that_die_with_it_are_counted_as_failed() -> None:
    box = Front()
    box.says(TrafficReport(10.0, 1.0, 1, (ModelTraffic("a", arrived=5, answered=2, queued=2, running=1),), ()))
    box.clock.advance(0.5)
    box.lost()
    lost = {"requests": 3, "unreported_s": 0.5, "reason": "killed"}
    assert box.written.notes == [("serving.front_lost", lost)]
    assert box.front.counts.total("a").failed == 3
    assert box.front.traffic is None
    assert box.written.events[-1] == r.FrontLost(10.5)
    box.lost()
    assert len(box.written.notes) == 1, "it had reported nothing since"


def test_commands_of_clients_are_handed_on() -> None:
    box = Front()
    command = RepositoryCommand(4, "load", "a")
    box.says(command)
    assert box.commands == [command]
    assert box.written.events == []


def test_a_request_costs_nothing_of_a_gpu() -> None:
    assert front_share_per_rate(CAPS) == pytest.approx(0.0003)
    assert front_share_per_rate(replace(CAPS, device="cuda:0")) == 0.0
