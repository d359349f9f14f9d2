"""Workers' use: processes that stood in for each other are one account."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.core.shares import Usage
from edge.runtime.worker_usage import merged


@given(st.lists(st.tuples(st.floats(0.1, 100), st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=4))
def test_processes_of_one_worker_are_one_account(parts: list[tuple[float, float, float]]) -> None:
    usages = [
        Usage(f"camera-a~{n}" if n else "camera-a", asked, asked, used, used * wall, wall, given_share=used)
        for n, (wall, asked, used) in enumerate(parts)
    ]
    workers = {u.worker: "camera-a" for u in usages} | {"golden": "golden"}
    one, other = merged([*usages, Usage("golden", 0.1, 0.1, 0.1, 1.0, 10.0)], workers)
    wall = sum(p[0] for p in parts)
    assert (one.worker, other.worker) == ("camera-a", "golden")
    assert one.device_seconds == pytest.approx(sum(p[0] * p[2] for p in parts))
    assert one.used_share * one.wall_s == pytest.approx(one.device_seconds)
    assert one.asked == pytest.approx(sum(p[0] * p[1] for p in parts) / wall)
    assert min(p[1] for p in parts) - 1e-9 <= one.granted <= max(p[1] for p in parts) + 1e-9
    assert one.given_share == pytest.approx(one.used_share)


def test_the_visible_units_are_those_of_the_process_that_runs() -> None:
    old = Usage("camera-a", 0.2, 0.2, 0.1, 1.0, 10.0, visible_units=4, running=False)
    new = Usage("camera-a~1", 0.4, 0.4, 0.1, 1.0, 10.0, visible_units=8, running=True)
    (one,) = merged([old, new], {"camera-a": "camera-a", "camera-a~1": "camera-a"})
    assert (one.worker, one.visible_units, one.running, one.device_seconds) == ("camera-a", 8, True, 2.0)


def test_names_are_reported_and_not_read_out_of_places() -> None:
    used = [Usage("one", 0.2, 0.2, 0.1, 1.0, 10.0), Usage("b~1", 0.2, 0.2, 0.1, 1.0, 10.0), Usage("b", *[0.1] * 5)]
    found = merged(used, {"one": "camera-a", "b~1": "b~1"})
    assert [u.worker for u in found] == ["b~1", "camera-a"], "it is not known whose `b` was"
