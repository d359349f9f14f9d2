"""What the upgrade of a box does next."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.core.fleet_upgrade import UpgradeProgress, UpgradeSeen, UpgradeStep
from scheduler.fleet.upgrading import UpgradeNext, next_of

FREE = UpgradeSeen(True, True, "1", 100.0)
OFF = replace(FREE, drained=True)
BACK = replace(OFF, version="2", started_utc_s=200.0)
PATIENCE_S = 60.0


def step(step: UpgradeStep, seen: UpgradeSeen, waited_s: float = 1.0, **more: Any) -> UpgradeNext:
    version = more.pop("expect", "")
    progress = UpgradeProgress(step, ("upgrade",), "1", 100.0, **more)
    return next_of(progress, seen, waited_s, PATIENCE_S, version)


@pytest.mark.parametrize(
    ("at", "seen", "more", "then"),
    [
        ("draining", FREE, {}, UpgradeNext("drain")),
        ("draining", replace(FREE, away={"b2": "drained"}), {}, UpgradeNext("give_up", "others")),
        ("draining", replace(OFF, away={"b2": "lost"}), {}, UpgradeNext("give_up", "others")),
        ("draining", replace(OFF, cameras=("gate",)), {}, UpgradeNext("wait", "cameras")),
        ("draining", replace(OFF, cameras=("gate",)), {"waited_s": 60.0}, UpgradeNext("give_up", "cameras")),
        ("draining", OFF, {}, UpgradeNext("run")),
        ("draining", UpgradeSeen(False), {}, UpgradeNext("wait", "agent")),
        ("running", OFF, {}, UpgradeNext("run")),
        ("returning", UpgradeSeen(False), {"code": 0}, UpgradeNext("wait", "appliance")),
        ("returning", OFF, {"code": 0}, UpgradeNext("wait", "restart")),
        ("returning", OFF, {"code": 0, "waited_s": 60.0}, UpgradeNext("give_up", "restart")),
        ("returning", replace(BACK, fresh=False), {"code": 0}, UpgradeNext("wait", "agent")),
        ("returning", BACK, {"code": 0, "expect": "3"}, UpgradeNext("wait", "version")),
        ("returning", BACK, {"code": 0, "expect": "2"}, UpgradeNext("undrain")),
        ("returning", OFF, {"code": 1}, UpgradeNext("undrain")),
        ("undraining", BACK, {"code": 0}, UpgradeNext("undrain")),
        ("undraining", replace(BACK, drained=False), {"code": 0}, UpgradeNext("done")),
        ("undraining", FREE, {"code": 1}, UpgradeNext("give_up", "command")),
    ],
)
def test_what_comes_next(at: UpgradeStep, seen: UpgradeSeen, more: dict[str, Any], then: UpgradeNext) -> None:
    assert step(at, seen, **more) == then


@given(
    st.sampled_from(get_args(UpgradeStep)),
    st.builds(
        UpgradeSeen, st.booleans(), st.booleans(), st.just("1"), st.sampled_from((100.0, 200.0)), st.booleans(),
        st.sampled_from(((), ("gate",))), st.just({}), st.sampled_from(({}, {"b2": "drained"}, {"b2": "silent"})),
    ),
    st.floats(0.0, 120.0),
    st.sampled_from((None, 0, 1)),
)  # fmt: skip
def test_the_command_begins_with_no_camera_here_and_no_other_box_away(
    at: UpgradeStep, seen: UpgradeSeen, waited_s: float, code: int | None
) -> None:
    then = step(at, seen, waited_s, code=code)
    if at == "draining" and then.do == "run":
        assert seen.drained
        assert not seen.cameras
        assert not seen.away
    if then.do == "done":
        assert not seen.drained
        assert not code
    if then.do == "wait":
        assert waited_s < PATIENCE_S
