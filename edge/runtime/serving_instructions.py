"""The reorganiser's orders, carried out: shares, executors, routes, and records of plans and versions."""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatchmethod

from edge.core.journal_kinds import JournalNote
from edge.core.serving import DeviceTable
from edge.core.serving_reasons import in_words
from edge.runtime.executor_worker import SetVersions
from edge.runtime.serving_executors import Executors
from edge.runtime.serving_front import ServingFront
from edge.runtime.serving_loading import ModelLoader
from edge.runtime.serving_shares import ServingShares
from edge.runtime.serving_tables import DeviceTables
from edge.runtime.supervisor import Supervisor
from scheduler.gpulets import reorganiser_events as r


class ServingInstructions:
    """The runtime's hands for `scheduler.gpulets.reorganiser`. `planned_with()` is the table that the reorganiser
    reckons with; `note(kind, data)` journals, `complain(code, message)` tells the operator."""

    def __init__(
        self,
        supervisor: Supervisor,
        shares: ServingShares,
        executors: Executors,
        front: ServingFront,
        loader: ModelLoader,
        tables: DeviceTables,
        planned_with: Callable[[], DeviceTable | None],
        note: JournalNote,
        complain: Callable[[str, str], None],
    ) -> None:
        self._supervisor, self._shares, self._executors, self._front = supervisor, shares, executors, front
        self._loader, self._tables, self._planned_with = loader, tables, planned_with
        self._note, self._complain = note, complain

    @singledispatchmethod
    def do(self, instruction: r.Instruction) -> None:
        """Carry an instruction out. Raises MagpieError, and TypeError for an unknown one."""
        raise TypeError(f"no way to carry out {type(instruction).__name__}")

    @do.register
    def _reserve(self, order: r.ReserveShare) -> None:
        self._shares.hold(order.share)

    @do.register
    def _start(self, order: r.StartExecutor) -> None:
        self._executors.start(order)

    @do.register
    def _resize(self, order: r.ResizeExecutor) -> None:
        self._supervisor.resize(order.executor, order.share)

    @do.register
    def _route(self, order: r.SetLayout) -> None:
        self._front.route(order.layout)

    @do.register
    def _stop(self, order: r.StopExecutor) -> None:
        self._executors.stop(order.executor)

    @do.register
    def _trim(self, order: r.TrimExecutor) -> None:
        self._supervisor.send(order.executor, SetVersions(order.versions))

    @do.register
    def _record(self, order: r.RecordServingPlan) -> None:
        data = {
            "cause": in_words(order.cause),
            "reasons": [reason.to_json() for reason in order.cause],
            "policy": order.plan.policy,
            "share": order.plan.total_share,
            "problem": order.problem.to_json() | {"device_file": self._tables.record(self._planned_with())},
            "plan": order.plan.to_json(),
            "two_queues": [two.to_json() for two in order.two_queues],
            "split": [reason.to_json() for reason in order.split],
        }
        self._note("serving.plan", data=data)

    @do.register
    def _served(self, order: r.VersionServed) -> None:
        self._note("serving.version", data={"model": order.version.model, "version": order.version.version})
        self._loader.served(order)

    @do.register
    def _failed(self, order: r.VersionFailed) -> None:
        self._loader.version_failed(order)

    @do.register
    def _of_executor(self, order: r.ExecutorNote) -> None:
        lost = order.kind == "executor_lost"
        became = "lost" if lost else "given up"
        words = f"{order.executor} ({', '.join(order.models)}) was {became}: {order.reason}"
        words += "; it is started again" if lost else ""
        data = {"message": words, "executor": order.executor, "reason": order.reason}
        if lost:
            self._note("serving.executor_lost", data=data)
        else:
            self._note("serving.executor_failed", data=data)
            self._complain(order.kind, words)

    @do.register
    def _refused(self, order: r.RefusedNote) -> None:
        words = order.refusal.words()
        data = {"message": words, "model": order.refusal.model, "code": order.refusal.code}
        self._note("serving.model_refused", data=data)
        self._complain("model_refused", words)

    @do.register
    def _capped(self, order: r.CappedNote) -> None:
        asked = f"{100 * order.part:.0f} % of the rate that is asked"
        words = f"{order.model} is served at {asked}: the rest of the share is taken"
        self._note("serving.model_capped", data={"message": words, "model": order.model, "part": order.part})
        self._complain("model_capped", words)
