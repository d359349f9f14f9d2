"""The executor processes that hold gpu-lets: which of them holds which, and the steps from what they hold to what they
shall hold."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from edge.core.front_messages import ServedVersion
from edge.core.serving import Gpulet
from scheduler.gpulets.reorganiser_events import Instruction, ResizeExecutor, StartExecutor, StopExecutor, TrimExecutor
from scheduler.gpulets.reorganiser_settings import ShareKindLimits
from scheduler.gpulets.versions import loads_alike

_EPS = 1e-6


@dataclass
class ExecutorView:
    """An executor process. `share` is what it was given, `target` the gpu-let it shall hold, `gpulet` the one it holds
    in the layout in force."""

    id: str
    versions: dict[str, ServedVersion]
    share: float
    state: str = "planned"  # planned | starting | connected | lost | stopping
    target: Gpulet | None = None
    gpulet: Gpulet | None = None
    routed: bool = False  # requests were ever sent to it
    drained: bool = False  # and all are answered, since it has no route

    @property
    def exists(self) -> bool:
        """A process holds (or is being given) its share."""
        return self.state != "planned"

    @property
    def draining(self) -> bool:
        """It had routes, has none any more, and is not stopped yet."""
        return self.routed and self.gpulet is None and self.target is None and self.state != "stopping"

    def routes(self, model: str) -> bool:
        """Requests for the model are sent to it."""
        return self.gpulet is not None and model in _names(self.gpulet)

    def cost(self, gpulet: Gpulet, versions: Mapping[str, ServedVersion], live: bool) -> tuple[float, ...] | None:
        """How unlike it is to the gpu-let of these versions; None if it cannot hold the gpu-let as it is."""
        for batch in gpulet.models:
            wanted, has = versions[batch.model], self.versions.get(batch.model)
            if has is None or not loads_alike(has, wanted):
                return None
        if not live and self.exists and abs(self.share - gpulet.share) > _EPS:
            return None
        unlike = len(self.versions) - len(gpulet.models)
        wait = {"connected": 0, "starting": 1, "lost": 2}.get(self.state, 3)
        return (unlike, wait, abs(self.share - gpulet.share))


class Partitions:
    """The executors, by id. `kind` is what the share kind in force can do. Changed by the reorganiser only.

    Shares are parts of the device; `most` is what all executors together may take.
    """

    def __init__(self, kind: ShareKindLimits) -> None:
        self.executors: dict[str, ExecutorView] = {}
        #: Models that are switched together, though no partition has both: one takes the other's requests over.
        self.linked: tuple[frozenset[str], ...] = ()
        self._kind = kind
        self._started = 0

    @property
    def total_share(self) -> float:
        """Shares of all executor processes."""
        return round(sum(e.share for e in self.executors.values() if e.exists), 9)

    @property
    def in_flight(self) -> bool:
        """True while partitions are started, switched or drained."""
        return any(
            e.state in ("planned", "starting", "stopping") or e.gpulet != e.target or e.draining
            for e in self.executors.values()
        )

    @property
    def active(self) -> list[ExecutorView]:
        """The executors that have routes."""
        return [e for e in self.executors.values() if e.gpulet is not None]

    def connected(self, executor: str) -> bool:
        """A process has loaded and warmed its models; False if nothing waited for that."""
        found = self.executors.get(executor)
        if found is None or found.state not in ("starting", "lost"):
            return False
        found.state = "connected"
        return True

    def drained(self, executor: str) -> bool:
        """Nothing is outstanding at an executor without routes; False if it has some, or is unknown."""
        found = self.executors.get(executor)
        if found is None or found.gpulet is not None:
            return False
        found.drained = True
        return True

    def stopped(self, executor: str) -> bool:
        """A process that was stopped is gone; False if it was not to be stopped."""
        found = self.executors.get(executor)
        if found is None or found.state != "stopping":
            return False
        del self.executors[executor]
        return True

    def front_lost(self) -> list[Instruction]:
        """Executors have to connect again; a drained executor has nothing left to answer and is stopped."""
        out: list[Instruction] = []
        for executor in list(self.executors.values()):
            if executor.draining:
                out.append(_stop(executor))
            elif executor.state == "connected":
                executor.state = "lost"
        return out

    def match(self, gpulets: Sequence[Gpulet], versions: Mapping[str, ServedVersion]) -> None:
        """Give each gpu-let of a plan an executor: one that has its models loaded, else a new one. `versions` are those
        that shall be served, by model."""
        for executor in self.executors.values():
            executor.target = None
        free = {e.id: e for e in self.executors.values() if e.state != "stopping" and not e.draining}
        pairs = []
        for n, gpulet in enumerate(gpulets):
            for executor in free.values():
                cost = executor.cost(gpulet, versions, self._kind.live)
                if cost is not None:
                    pairs.append((cost, n, executor.id))
        given: dict[int, str] = {}
        for _, n, name in sorted(pairs):
            if n not in given and name in free:
                given[n] = name
                free.pop(name).target = gpulets[n]
        for n, gpulet in enumerate(gpulets):
            if n not in given:
                self._started += 1
                loads = {b.model: versions[b.model] for b in gpulet.models}
                new = ExecutorView(f"executor-{self._started}", loads, 0.0, target=gpulet)
                self.executors[new.id] = new

    def keep_only(self, models: Collection[str]) -> None:
        """Take all other models out of all gpu-lets. The plan may still name them: the policy may have failed when they
        were unloaded."""
        for executor in list(self.executors.values()):
            executor.gpulet = _without_others(executor.gpulet, models)
            executor.target = _without_others(executor.target, models)
            if executor.state == "planned" and executor.target is None:
                del self.executors[executor.id]

    def groups(self) -> list[tuple[set[str], list[ExecutorView]]]:
        """Models that share a partition, now or in the plan, with the executors that hold them."""
        groups: list[tuple[set[str], list[ExecutorView]]] = []
        for executor in self.executors.values():
            if executor.state == "stopping":
                continue
            models = {b.model for g in (executor.target, executor.gpulet) if g is not None for b in g.models}
            if not models:
                continue
            models = models.union(*(together for together in self.linked if together & models))
            touched = [g for g in groups if g[0] & models]
            groups = [g for g in groups if not g[0] & models]
            groups.append((models.union(*(g[0] for g in touched)), [*(e for g in touched for e in g[1]), executor]))
        return groups

    def routes(self, model: str) -> bool:
        """Requests for the model are sent to some executor."""
        return any(e.routes(model) for e in self.executors.values())

    def settled(self, models: Collection[str]) -> bool:
        """Each of these models has its routes, and they are those of the plan."""
        touched = [e for e in self.executors.values() if any(e.routes(m) for m in models)]
        shall = [e for e in self.executors.values() if e.target is not None and _names(e.target) & set(models)]
        return all(map(self.routes, models)) and all(e.gpulet == e.target for e in (*touched, *shall))

    def switch(self) -> list[tuple[str, ServedVersion]]:
        """Put the plan in force for each group of models whose new partitions are all warm; returns these models with
        the version that has their routes now."""
        out = []
        for models, executors in self.groups():
            targets = [e for e in executors if e.target is not None]
            up = {name for e in targets if e.target and e.state == "connected" for name in _names(e.target)}
            shall = {name for e in targets if e.target for name in _names(e.target)}
            # A partition that died in use and is coming back delays no other, if others have its models meanwhile.
            if shall - up or any(e.gpulet is None and e.state != "connected" for e in targets):
                continue
            for executor in executors:
                executor.gpulet = executor.target
                if executor.gpulet is not None:
                    executor.routed, executor.drained = True, False
            for name in sorted(models):
                version = next((e.versions[name] for e in executors if e.routes(name)), None)
                if version is not None:
                    out.append((name, version))
        return out

    def stop_idle(self) -> list[Instruction]:
        """Stop the executors that have nothing to do and nothing to answer."""
        out: list[Instruction] = []
        for executor in list(self.executors.values()):
            idle = executor.target is None and executor.gpulet is None and executor.state != "stopping"
            if idle and (executor.state == "lost" or executor.drained or not executor.routed):
                out.append(_stop(executor))
        return out

    def shrink(self) -> list[Instruction]:
        """Executors whose routes are in force give what they hold above their gpu-let."""
        out: list[Instruction] = []
        for e in self.executors.values():
            shrinks = e.target is not None and e.target == e.gpulet and e.target.share < e.share - _EPS
            if shrinks and e.exists and e.state != "stopping" and self._kind.live:
                assert e.target is not None
                e.share = e.target.share
                out.append(ResizeExecutor(e.id, e.share))
        return out

    def grow(self, most: float) -> list[Instruction]:
        """Starts and enlargements, as far as there is share."""
        kind = self._kind
        out: list[Instruction] = []
        taking = [e for e in self.executors.values() if e.target is not None and e.state != "stopping"]
        for e in taking:
            assert e.target is not None
            if e.exists and kind.live and e.target.share > e.share + _EPS:
                more = min(e.target.share - e.share, self._free(most))
                if more > _EPS:
                    e.share = round(e.share + more, 6)
                    out.append(ResizeExecutor(e.id, e.share))
        waiting = sorted((e for e in taking if e.state == "planned"), key=lambda e: e.id)
        for n, e in enumerate(waiting):
            assert e.target is not None
            free = self._free(most)
            # The others that wait must find something too.
            part = min(e.target.share, free - kind.min_share * (len(waiting) - n - 1))
            if not kind.live:
                # Its share is fixed while it lives: it starts with all of it, if need be beside the old ones.
                fits = e.target.share <= free + _EPS
                part = e.target.share if fits or kind.oversubscribe or not self._others_move(e) else 0.0
            if part < kind.min_share - _EPS and not self._others_move(e):
                part = self._make_room(e, most, out)
            if part >= kind.min_share - _EPS and part > 0:
                e.share, e.state = round(part, 6), "starting"
                # While it waited it may have been meant for more models; its process loads these only.
                e.versions = {b.model: e.versions[b.model] for b in e.target.models}
                out.append(StartExecutor(e.id, e.share, tuple(e.versions.values())))
        return out

    def trim(self, models: Collection[str]) -> list[Instruction]:
        """All models but these are let go of by the executors that stay; a version that is replaced has its own."""
        out: list[Instruction] = []
        for e in self.executors.values():
            gone = [n for n in e.versions if n not in models]
            if gone and e.state == "connected" and e.gpulet is not None and not set(gone) & _names(e.gpulet):
                for name in gone:
                    del e.versions[name]
                out.append(TrimExecutor(e.id, tuple(e.versions.values())))
        return out

    def _free(self, most: float) -> float:
        return max(0.0, round(most - self.total_share, 9))

    def _others_move(self, me: ExecutorView) -> bool:
        """True if something is under way that will free a share."""
        return any(e.state in ("starting", "stopping") or e.draining for e in self.executors.values() if e is not me)

    def _make_room(self, newcomer: ExecutorView, most: float, out: list[Instruction]) -> float:
        """The last resort: the partition with most to spare gives the newcomer the least share that it can start
        with, so that a full device does not block every change."""
        least = self._kind.min_share
        if not self._kind.live:
            return 0.0
        givers = [e for e in self.executors.values() if e.exists and e is not newcomer and e.share > 2 * least]
        if not givers:
            return 0.0
        giver = max(givers, key=lambda e: (e.share - (0.0 if e.target is None else e.target.share), e.share, e.id))
        missing = max(0.0, least - self._free(most))
        giver.share = round(giver.share - missing, 6)
        out.append(ResizeExecutor(giver.id, giver.share))
        return least


def _stop(executor: ExecutorView) -> StopExecutor:
    executor.state, executor.target, executor.gpulet = "stopping", None, None
    return StopExecutor(executor.id)


def _names(gpulet: Gpulet) -> set[str]:
    return {b.model for b in gpulet.models}


def _without_others(gpulet: Gpulet | None, models: Collection[str]) -> Gpulet | None:
    """A gpu-let with these models only; None if none is left."""
    if gpulet is None:
        return None
    kept = tuple(b for b in gpulet.models if b.model in models)
    if len(kept) == len(gpulet.models):
        return gpulet
    return replace(gpulet, models=kept) if kept else None
