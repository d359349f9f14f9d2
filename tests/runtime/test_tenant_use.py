"""What tenants' workers use: means of intervals from accounts that are cumulative over a window."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.core.shares import Usage
from edge.runtime.serving_status import KnownExecutor
from edge.runtime.tenant_use import TenantUse, owners_of_workers


def account(worker: str, wall_s: float, used: float, granted: float) -> Usage:
    return Usage(worker, granted, granted, used, 0.0, wall_s)


def of(use: TenantUse, tenant: str) -> tuple[float, float] | None:
    found = use.of(tenant)
    return None if found is None else (pytest.approx(found.used), pytest.approx(found.given))  # type: ignore[return-value]


def test_an_interval_is_the_difference_of_two_accounts() -> None:
    use = TenantUse()
    use.look([(account("executor-1", 5.0, 0.2, 0.4), "gate")], ["gate"])
    assert use.of("gate") is None, "too short to say anything"
    use.look([(account("executor-1", 10.0, 0.2, 0.4), "gate")], ["gate"])
    assert of(use, "gate") == (0.2, 0.4), "before the first interval has ended, what was seen so far"
    use.ended(["gate"])
    use.look([(account("executor-1", 20.0, 0.3, 0.4), "gate")], ["gate"])
    assert of(use, "gate") == (0.2, 0.4), "until the interval ends"
    use.ended(["gate"])
    assert of(use, "gate") == (0.4, 0.4)


def test_accounts_that_begin_anew_count_from_nothing() -> None:
    use = TenantUse()
    use.look([(account("executor-1", 100.0, 0.5, 0.5), "gate")], ["gate"])
    use.ended(["gate"])
    use.look([(account("executor-1", 10.0, 0.1, 0.5), "gate")], ["gate"])
    use.ended(["gate"])
    assert of(use, "gate") == (0.1, 0.5)


def test_a_worker_that_is_not_known_any_more_worked_for_whom_it_did() -> None:
    use = TenantUse()
    both = [(account("executor-1", 10.0, 0.1, 0.2), "gate"), (account("executor-2", 10.0, 0.1, 0.1), "gate")]
    use.look(both, ["gate"])
    use.ended(["gate"])
    left = [(account("executor-1", 15.0, 0.1, 0.2), None), (account("executor-2", 20.0, 0.1, 0.1), "gate")]
    use.look(left, ["gate"])
    use.ended(["gate"])
    assert of(use, "gate") == (0.15, 0.2), "it ended in the middle of the interval"


def test_cameras_have_one_interval_per_window() -> None:
    use = TenantUse()
    use.in_window(1, ["streets"])
    north, retraining = account("camera-north", 50.0, 0.02, 0.2), account("retrain-north", 20.0, 0.1, 0.1)
    use.look([(north, "streets"), (retraining, "streets")], ["streets", "gate"])
    use.ended(["gate"])
    assert not use.due
    use.in_window(2, ["streets"])
    assert use.due
    assert of(use, "streets") == (0.02 + 0.1 * 20 / 50, 0.2 + 0.1 * 20 / 50)
    assert of(use, "gate") == (0.0, 0.0), "nothing worked for it"


@given(st.lists(st.tuples(st.floats(0.5, 20.0), st.floats(0.0, 1.0), st.floats(0.01, 1.0)), min_size=1, max_size=8))
def test_what_is_used_is_the_same_however_often_one_looks(steps: list[tuple[float, float, float]]) -> None:
    use = TenantUse()
    wall = used = granted = 0.0
    for seconds, share, grant in steps:
        wall, used, granted = wall + seconds, used + seconds * share * grant, granted + seconds * grant
        use.look([(account("executor-1", wall, used / wall, granted / wall), "gate")], ["gate"])
    use.ended(["gate"])
    found = use.of("gate")
    assert found is not None
    assert (found.used, found.given) == (pytest.approx(used / wall), pytest.approx(granted / wall))
    assert found.utilisation == pytest.approx(used / granted)


def test_workers_belong_to_the_tenant_of_their_camera_or_of_their_partition() -> None:
    rows = [
        (account("camera-north", 1.0, 0.1, 0.1), "inference", "north"),
        (account("retrain-east", 1.0, 0.1, 0.1), "retraining", "east"),
        (account("executor-1", 1.0, 0.1, 0.1), "serving", None),
        (account("executor-9", 1.0, 0.1, 0.1), "serving", None),
        (account("golden", 1.0, 0.1, 0.1), "golden", None),
    ]
    executors = [KnownExecutor("executor-1", "connected", 0.1, {"gone": "1", "a": "1"})]
    found = owners_of_workers(rows, executors, {"a": "gate"}, {"north": "streets"})  # type: ignore[arg-type]
    assert [t for _, t in found] == ["streets", None, "gate", None, None]
