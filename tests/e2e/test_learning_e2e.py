"""Learning where time is short: a camera is retrained on what past windows taught, without a trial."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from running_kit import running, until

from edge.core.learning import LEARNED_DOCUMENT, LearningFacts, PromiseHistory
from edge.runtime.learning import history_of
from edge.settings import SiteSettings
from microprofiler.history import ProfilerHistory

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(480)]


def gaining(history: ProfilerHistory) -> ProfilerHistory:
    """`history` after past windows taught that each configuration pays: no test waits until a street needs it."""
    known = {c: replace(k, gain=0.8, spread=0.02, seconds_per_frame=0.01) for c, k in history.known.items()}
    return replace(history, known=known)


async def test_without_time_for_trials_the_best_known_is_retrained(site: Callable[..., SiteSettings]) -> None:
    free = {"label_budget": None, "golden_share": None}
    made = site(window_s=12.0, **free)
    async with running(made.model_copy(update={"cameras": made.cameras[:1]})) as appliance:
        runtime = appliance.runtime
        assert runtime.window.settings.golden_share is None
        # Profiles that are handed in before a trial has ended teach nothing: then the next window does.
        await until(runtime.preparation.knows, "a camera's configurations were tried", 150)
        for camera in runtime.cameras.values():
            camera.history = gaining(history_of(camera.history)).to_json()
        runtime.preparation.tries = lambda camera: False  # type: ignore[method-assign]

        def untried() -> bool:
            appliance.services.events.buffer.flush()
            return any(
                e.data["profiled"] is False
                for e in appliance.services.events.recent(200, None, None, "retraining.started")
            )

        await until(untried, "a retraining without a trial began")
        await until(lambda: runtime.learning.facts.visit_s, "what a retraining's step costs was measured")
        learning = appliance.services.retraining.learning()
        assert learning.unprofiled_retrainings >= 1
        assert learning.budget.known, "the cost of a label was measured"
        assert learning.fixed == {"golden_share": False, "label_budget": False, "profiling_budget": False}
        assert learning.facts["label_s"].samples > 3
        assert runtime.supervisor.has("golden")
        assert all(w["losses"] == 0 for w in runtime.supervisor.workers() if w["role"] == "profiling" and "losses" in w)
        kept = appliance.store.settings.get_settings(LEARNED_DOCUMENT)
        assert kept is not None
        assert LearningFacts.from_json(kept["facts"]).label_s is not None
        promised = PromiseHistory.from_json(kept["promises"])
        assert {o.window for found in promised.cameras.values() for o in found} >= {1}, "promises outlive a restart"
        problem = appliance.services.windows.one(2).plans[-1].problem
        assert all("promise" in s for s in problem["streams"]), "the correction is on record with the problem"
