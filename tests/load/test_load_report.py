"""The report: every request counted once, latencies from when a request was due, what the client lost on its own."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.load.report import LoadReport, ModelReport, RequestOutcome, RequestTrace, kept_up, model_report

DUE, SENT, TOOK = st.floats(0, 9.99), st.floats(-0.0005, 2), st.floats(0.0001, 3)


def trace(*requests: tuple[float, float | None, float | None, RequestOutcome]) -> RequestTrace:
    """Of (due, sent, done, outcome) in seconds."""
    due, sent, done = (
        np.array([math.nan if (at := r[n]) is None else at for r in requests], dtype=np.float64) for n in range(3)
    )
    return RequestTrace(due, sent, done, np.array([r[3] for r in requests], np.uint8))


def report(*models: ModelReport) -> LoadReport:
    return LoadReport("http://x", "magpie 1", "2026-01-01T00:00:00+00:00", 10, 0, 0, models, 1.5, kept_up(models))


@st.composite
def traces(draw: st.DrawFn) -> RequestTrace:
    requests = []
    for due in sorted(draw(st.lists(DUE, max_size=40))):
        outcome = draw(st.sampled_from(RequestOutcome))
        sent = None if outcome == RequestOutcome.UNSENT else due + draw(SENT)
        requests.append((due, sent, None if sent is None else sent + draw(TOOK), outcome))
    return trace(*requests)


@given(traces(), st.none() | st.floats(1, 3000))
def test_every_request_is_counted_once(requests: RequestTrace, slo_ms: float | None) -> None:
    m = model_report("m", slo_ms, 1, requests, 10.0)
    c = m.counts
    assert c.offered == len(requests.due_s) == c.sent + c.unsent
    assert c.offered == c.answered + c.dropped + c.rejected + c.failed + c.gave_up + c.unsent
    assert c.violations == c.late + c.dropped + c.rejected + c.failed + c.gave_up
    assert 0 <= c.late_by_client <= c.late <= c.answered
    assert 0 <= m.violation_ratio <= 1
    assert m.good_rate <= m.answered_rate <= m.offered_rate
    assert len(m.timeline) == 10
    for name in ("offered", "answered", "violations", "dropped", "rejected"):
        assert sum(getattr(s, name) for s in m.timeline) == getattr(c, name)
    assert sum(s.failed for s in m.timeline) == c.failed + c.gave_up


@given(traces())
def test_quantiles_are_latencies_that_occurred(requests: RequestTrace) -> None:
    m = model_report("m", 100, 1, requests, 10.0)
    occurred = requests.latency_ms[requests.outcome == RequestOutcome.ANSWERED]
    if not m.counts.answered:
        assert m.latency_ms == {}
        return
    for name in ("p50", "p90", "p99", "p99.9", "max"):
        assert np.min(np.abs(occurred - m.latency_ms[name])) < 0.001
    assert m.latency_ms["p50"] <= m.latency_ms["p90"] <= m.latency_ms["p99"] <= m.latency_ms["max"]
    at_most = np.count_nonzero(occurred <= m.latency_ms["p90"] + 0.001)
    assert at_most >= 0.9 * len(occurred) - 1


def test_latency_counts_from_when_a_request_was_due() -> None:
    """A server that stalls must not look fast because the client waited for it."""
    stalled = [(n * 0.1, 1.0 + n * 0.001, 1.01 + n * 0.001, RequestOutcome.ANSWERED) for n in range(10)]
    m = model_report("m", 50, 1, trace(*stalled), 10.0)
    assert m.latency_ms["max"] == pytest.approx(1010)
    assert m.counts.late == 10
    assert m.counts.late_by_client == 10  # each was answered 10 ms after it was sent
    assert m.late_sends == 10
    assert not kept_up([m])


def test_a_request_sent_a_grain_early_does_not_look_faster() -> None:
    early = trace((1.0, 0.9995, 1.0095, RequestOutcome.ANSWERED))
    assert early.latency_ms[0] == pytest.approx(10)
    assert early.lag_ms[0] == 0


def test_without_an_objective_only_what_went_unanswered_is_a_violation() -> None:
    m = model_report("m", None, 1, trace((0, 0, 5, RequestOutcome.ANSWERED), (1, 1, 2, RequestOutcome.DROPPED)), 10.0)
    assert (m.counts.late, m.counts.violations, m.violation_ratio) == (0, 1, 0.5)


def test_what_the_client_never_sent_is_no_violation_of_the_server() -> None:
    m = model_report(
        "m", 100, 1, trace((0, 0, 0.01, RequestOutcome.ANSWERED), (1, None, None, RequestOutcome.UNSENT)), 10.0
    )
    assert (m.counts.offered, m.counts.unsent, m.counts.violations, m.violation_ratio) == (2, 1, 0, 0.0)
    assert not kept_up([m])
    assert "did not keep up" in report(m).table()


def test_no_requests_make_a_report_too() -> None:
    m = model_report("m", 100, 1, trace(), 0.5)
    assert (m.counts.offered, m.violation_ratio, m.latency_ms, m.lag_ms) == (0, 0.0, {}, {})
    text = report(m).table()
    assert text.splitlines()[1].split()[:5] == ["m", "0.0", "0.0", "0.0", "-"]


def test_the_report_is_json_and_a_table() -> None:
    done = [(n * 0.01, n * 0.01, n * 0.01 + 0.001 * n, RequestOutcome.ANSWERED) for n in range(100)]
    lost = [
        (5 + n, 5 + n, 5.5 + n, o)
        for n, o in enumerate((RequestOutcome.DROPPED, RequestOutcome.REJECTED, RequestOutcome.FAILED))
    ]
    m = model_report("lenet", 90, 2, trace(*done, *lost), 10.0, {"504: too late": 1})
    whole = report(m)
    value = json.loads(json.dumps(whole.to_json(), allow_nan=False))
    assert value["format"] == "magpie-load/1"
    model = value["models"][0]
    assert (model["late"], model["dropped"], model["rejected"], model["failed"]) == (9, 1, 1, 1)
    assert list(model) == [
        "model", "slo_ms", "rows", "offered", "answered", "late", "late_by_client", "dropped", "rejected", "failed",
        "gave_up", "unsent", "violations", "violation_ratio", "offered_rate", "answered_rate", "good_rate",
        "latency_ms", "lag_ms", "late_sends", "errors", "timeline",
    ]  # fmt: skip
    assert value["violation_ratio"] == round(12 / 103, 6)
    assert model["latency_ms"]["p50"] == pytest.approx(50, abs=1)
    assert model["timeline"][5] == {
        "second": 5, "offered": 1, "answered": 0, "violations": 1, "dropped": 1, "rejected": 0, "failed": 0,
        "latency_ms": None,
    }  # fmt: skip
    lines = whole.table().splitlines()
    assert lines[1].split()[:4] == ["lenet", "10.3", "10.0", "9.1"]
    assert "11.65 %" in lines[1]
    assert "lenet: 1 x 504: too late" in lines
    assert len({len(line) for line in lines[:2]}) == 1


def test_reports_of_runs_add_up() -> None:
    """The ratio of the whole run is of all models' requests, not the mean of the models' ratios."""
    many = trace(*((n * 0.01, n * 0.01, n * 0.01, RequestOutcome.ANSWERED) for n in range(99)))
    one = trace((0.0, 0.0, 1.0, RequestOutcome.DROPPED))
    models = tuple(model_report(name, 10, 1, t, 1.0) for name, t in (("a", many), ("b", one)))
    assert report(*models).violation_ratio == pytest.approx(0.01)
