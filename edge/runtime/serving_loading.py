"""Loads and unloads served models: files are checked, latencies measured, versions offered and waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from edge.core.application_sources import ApplicationSource
from edge.core.clock import Clock
from edge.core.errors import Conflict, InvalidValue, MagpieError, NotFound, Unavailable, WorkerFailed
from edge.core.front_messages import Layout, ServedVersion
from edge.core.model_reasons import ModelReason
from edge.runtime.serving_check import check_version
from edge.runtime.serving_demand import Offer
from edge.runtime.serving_measuring import Measuring
from edge.runtime.serving_models import OfferedModels
from edge.runtime.serving_planning import PlanningThread
from edge.runtime.serving_tables import DeviceTables
from edge.serving.repository import Repository
from scheduler.gpulets import reorganiser_events as r
from scheduler.gpulets.versions import loads_alike

#: A client that loads a model waits at most so long, in seconds; loading goes on after it.
_LOAD_S = 300.0
#: At the start models that are ready within so many seconds of each other are placed together.
_TOGETHER_S = 10.0


class ModelLoader:
    """Offers to `models` what the repository has and clients ask for. With `measure`, models whose latencies are not
    known are measured first. `layout()` is what is in force; `complain(code, message)` tells the operator; `check`
    loads and runs a version once, in a thread, and raises MagpieError with the reason why it cannot be; `check_source`
    raises InvalidValue for an application's camera that is not there."""

    def __init__(
        self,
        repository: Repository,
        models: OfferedModels,
        tables: DeviceTables,
        measuring: Measuring,
        planner: PlanningThread,
        layout: Callable[[], Layout | None],
        clock: Clock,
        complain: Callable[[str, str], None],
        measure: bool,
        check: Callable[[ServedVersion], None] = check_version,
        check_source: Callable[[ApplicationSource | None], None] = lambda _: None,
    ) -> None:
        self._repository, self._models, self._tables, self._measuring = repository, models, tables, measuring
        self._planner, self._layout, self._clock, self._complain = planner, layout, clock, complain
        self._measure, self._try, self._check_source = measure, check, check_source
        self._checked: set[tuple[str, str]] = set()
        self._locks: dict[str, asyncio.Lock] = {}
        #: Loads that wait until their version is placed, by model.
        self._waiting: dict[str, list[tuple[ServedVersion, asyncio.Future[None]]]] = {}

    # -- at the start

    async def take_in(self, names: Sequence[str]) -> None:
        """Check each model, measure those that are not measured, all together; known ones serve at once."""
        missing = []
        reported_s = self._clock.monotonic()
        for name in names:
            offer = self._models.offers.get(name)
            if offer is None:
                continue  # unloaded before its turn
            try:
                async with self._lock(name):
                    version = await self._resolved(offer)
                    if version is None:
                        continue
                    await self._check(offer, version)
                    offer.version = version
                    if self._tables.knows(version.model) or not self._measure:
                        offer.state = "offered"
                    else:
                        missing.append(version)
                        offer.state = "measuring"
            except (MagpieError, OSError) as error:
                self._not_taken_in(offer, error)
            # Together they are placed once; but none waits long for those that come after.
            if self._clock.monotonic() - reported_s > _TOGETHER_S:
                reported_s = self._clock.monotonic()
                self._models.changed()
        self._models.changed()
        if missing:
            await self._measuring.measure(missing)
            self._models.changed()

    async def _resolved(self, offer: Offer) -> ServedVersion | None:
        """The version as it is on disk now; None for an application, which is taken in here. Raises MagpieError."""
        name = offer.name
        if await asyncio.to_thread(self._repository.is_application, name):
            offer.application = await asyncio.to_thread(self._repository.application, name)
            offer.state, offer.reason = "offered", None
            return None
        return await asyncio.to_thread(self._repository.resolve, name)

    def _not_taken_in(self, offer: Offer, error: MagpieError | OSError) -> None:
        offer.reason = ModelReason("failed", str(error))
        served = offer.version is not None or offer.application is not None
        offer.state = "offered" if served else "failed"
        self._complain("model_failed", f"{offer.name} is not served: {error}")

    async def _check(self, offer: Offer, version: ServedVersion) -> None:
        """Load and run it once, away from everything else. Raises MagpieError with the reason."""
        key = (version.key, version.digest)
        if version.digest and key in self._checked:
            return
        offer.state, offer.reason = "checking", None
        await asyncio.to_thread(self._try, version)
        self._checked.add(key)

    # -- for clients

    async def load(self, model: str, parameters: Mapping[str, object]) -> None:
        """Load, check, measure, warm, switch; the version before serves until then, and on if this one fails.

        `parameters` as the protocol has them: "config" (JSON), "file:NAME" (where uploads are allowed). Raises
        MagpieError with the reason; nothing that is served is disturbed by it."""
        async with self._lock(model):
            staged = await asyncio.to_thread(self._repository.stage, model, parameters)
            fresh = model not in self._models.offers
            offer = self._models.offers.setdefault(model, Offer(model))
            try:
                if staged.application is None:
                    await self._check(offer, staged.versions[-1])
                else:
                    self._check_source(staged.application.source)
                committed = await asyncio.to_thread(staged.commit)
            except BaseException as error:
                await asyncio.to_thread(staged.discard)
                if fresh:
                    self._models.offers.pop(model, None)
                elif offer.version is not None or offer.application is not None:
                    offer.state = "offered"
                else:
                    offer.state, offer.reason = "failed", ModelReason("failed", str(error))
                raise
            if staged.application is not None:
                self._still_wanted(offer)
                offer.application, offer.state, offer.reason = staged.application, "offered", None
                self._models.changed()
                return
            await self._offer(offer, committed[-1])

    async def _offer(self, offer: Offer, version: ServedVersion) -> None:
        """Measure the version if need be, offer it, and wait until it serves. Raises MagpieError."""
        model = offer.name
        self._checked.add((version.key, version.digest))
        if self._measure and (not self._tables.knows(model) or self._measuring.could_have_more(model)):
            await self._measuring.measure([version])
        self._still_wanted(offer)
        before, offer.version, offer.state, offer.reason = offer.version, version, "offered", None
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(model, []).append((version, future))
        self._models.changed()
        try:
            async with asyncio.timeout(_LOAD_S):
                await self._settle(model, version, future)
                await future
        except TimeoutError:
            raise Unavailable(f"{model} version {version.version} is still being loaded") from None
        except MagpieError:
            if before is None:
                self._models.offers.pop(model, None)
                self._models.changed()
            raise
        finally:
            future.cancel()  # no caller waits for it any more

    def _still_wanted(self, offer: Offer) -> None:
        """Raises Conflict if it was unloaded while it was being loaded."""
        if self._models.offers.get(offer.name) is not offer:
            raise _unloaded(offer.name)

    async def _settle(self, model: str, version: ServedVersion, future: asyncio.Future[None]) -> None:
        """Resolve the wait of a load that changes nothing, or that is refused."""
        while not future.done():
            if self._planner.idle:
                layout = self._layout()
                refused = self._planner.view.refused.get(model)
                if refused is not None:
                    future.set_exception(Unavailable(f"{model} is loaded but not served: {refused.words()}"))
                    return
                routed = layout is not None and any(model in route.versions for route in layout.routes)
                now = self._in_force(model)
                if routed and now is not None and loads_alike(now, version):
                    future.set_result(None)
                    return
            await self._planner.next_decision()

    async def unload(self, model: str) -> None:
        """Not served from now on; queued requests are answered. Raises NotFound, InvalidValue."""
        offers = self._models.offers
        if model not in offers:
            raise NotFound(f"model {model} is not loaded")
        users = [o.name for o in offers.values() if o.application is not None and model in o.application.every_model]
        if users:
            raise InvalidValue("model", model, f"a model that no application uses; {', '.join(users)} does")
        del offers[model]
        self._resolve(model, _unloaded(model))
        self._models.changed()
        # A client that loads it again meanwhile has the last word.
        while model not in offers and self._in_force(model) is not None:
            await self._planner.next_decision()

    # -- from the reorganiser

    def served(self, order: r.VersionServed) -> None:
        """A version serves: loads that wait for it are done."""
        self._resolve(order.version.model, None, order.version)

    def version_failed(self, order: r.VersionFailed) -> None:
        """A version cannot be served: the one before is offered again, loads that wait for it fail, the operator gets
        a notice. A version that is offered since is not concerned.
        """
        failed, model = order.version, order.version.model
        offer = self._models.offers.get(model)
        serving = f"; version {order.serving.version} goes on" if order.serving is not None else ""
        words = f"{model} version {failed.version} cannot be served: {order.reason}{serving}"
        offered = None if offer is None else offer.version
        if offer is not None and offered is not None and order.serving is not None and loads_alike(offered, failed):
            offer.version = order.serving
            # An event that waits for its turn may have the version that failed.
            self._models.changed()
        self._complain("model_failed", words)
        self._resolve(model, WorkerFailed(words), failed)

    def _in_force(self, model: str) -> ServedVersion | None:
        layout = self._layout()
        return next((m for m in (layout.models if layout else ()) if m.model == model), None)

    def _resolve(self, model: str, error: MagpieError | None, version: ServedVersion | None = None) -> None:
        """End the waits for this version (None: for any of the model)."""
        waiting = self._waiting.pop(model, [])
        others = []
        for wanted, future in waiting:
            if future.done():
                continue
            if version is not None and not loads_alike(wanted, version):
                others.append((wanted, future))
            elif error is None:
                future.set_result(None)
            else:
                future.set_exception(error)
        if others:
            self._waiting[model] = others

    def _lock(self, model: str) -> asyncio.Lock:
        return self._locks.setdefault(model, asyncio.Lock())


def _unloaded(model: str) -> Conflict:
    return Conflict(f"{model} was unloaded while it was being loaded")
