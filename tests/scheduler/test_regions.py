"""The region of interest: learned from labels, taken only when it pays."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from edge.core.baseline import Baseline, RegionRecord, ScoreCounts
from edge.core.configs import LEAST_SIDE, WHOLE, check_region
from edge.core.thresholds import SCORES
from edge.core.vision import Detections
from scheduler.regions import FEWEST_LABELS, GIVEN_UP_AT, LEAST_SAVED, TAKEN_AT, holds, learned_region, next_region

side = st.floats(0.0, 0.9)


def counts(f1: float) -> ScoreCounts:
    """Counts of one window whose best F1 is `f1`: of 1000 objects, as many answers."""
    right = round(1000 * f1)
    return ScoreCounts((float(right),) * len(SCORES), (1000.0,) * len(SCORES), 1000.0)


@given(st.lists(st.tuples(side, side, st.floats(0.01, 0.1), st.floats(0.01, 0.1)), min_size=0, max_size=60))
def test_a_region_is_a_part_that_holds_nearly_all_labels(boxes: list[tuple[float, float, float, float]]) -> None:
    given_boxes = np.array([(x, y, x + w, y + h) for x, y, w, h in boxes]).reshape(-1, 4)
    region = learned_region(given_boxes)
    check_region("region", region)
    if len(boxes) < FEWEST_LABELS:
        assert region == WHOLE
    if region != WHOLE:
        assert (region[2] - region[0]) * (region[3] - region[1]) <= 1 - LEAST_SAVED + 1e-6
        inside = (given_boxes[:, 0] >= region[0] - 1e-6) & (given_boxes[:, 2] <= region[2] + 1e-6)
        inside &= (given_boxes[:, 1] >= region[1] - 1e-6) & (given_boxes[:, 3] <= region[3] + 1e-6)
        assert inside.mean() >= 0.9


def test_a_row_of_objects_leaves_room_above_and_below() -> None:
    boxes = [(0.1 + 0.02 * n, 0.5, 0.12 + 0.02 * n, 0.51) for n in range(40)] * 3
    region = learned_region(boxes)
    assert region[3] - region[1] >= LEAST_SIDE - 1e-9


def test_a_region_holds_lines_and_zones_beside_the_labels() -> None:
    """Beside the region nothing is seen, so nothing would be counted there."""
    boxes = [(0.1 + 0.002 * n, 0.5, 0.15 + 0.002 * n, 0.6) for n in range(100)]
    gate = ((0.5, 0.3), (0.6, 0.9))
    alone, both = learned_region(boxes), learned_region(boxes, gate)
    assert holds(both, gate)
    assert not holds(alone, gate)
    assert both[0] <= alone[0]
    assert both[3] >= 0.9
    assert learned_region(boxes, ((0.0, 0.0), (1.0, 1.0))) == WHOLE
    assert holds(WHOLE, gate)
    assert holds(alone, ())


def test_labels_all_over_the_picture_need_all_of_it() -> None:
    boxes = [(x / 10, y / 10, x / 10 + 0.1, y / 10 + 0.1) for x in range(10) for y in range(10)]
    assert learned_region(boxes) == WHOLE


def test_a_region_is_taken_when_the_student_in_force_did_better_on_it() -> None:
    part = (0.0, 0.2, 0.8, 1.0)
    record = RegionRecord(counts(0.60), counts(0.60 + TAKEN_AT + 0.02), part)
    assert next_region(record, WHOLE) == part
    few = ScoreCounts(*(tuple(n / 20 for n in x) for x in (record.part.right, record.part.given)), 50.0)
    assert next_region(replace(record, part=few), WHOLE) == WHOLE, "the same gain on 50 objects is noise"
    assert next_region(replace(record, part=counts(0.60)), WHOLE) == WHOLE
    assert next_region(replace(record, part=counts(0.60)), part) == part, "it stays while it is no worse"
    assert next_region(replace(record, part=counts(0.60 + GIVEN_UP_AT - 0.01)), part) == WHOLE
    assert next_region(RegionRecord(), part) == WHOLE, "no region was learned"


def test_nothing_changes_before_the_student_in_force_was_measured() -> None:
    part = (0.0, 0.2, 0.8, 1.0)
    baseline = Baseline(RegionRecord(counts(0.5), counts(0.7), part))
    assert next_region(baseline.of(retrained=False), WHOLE) == part
    assert next_region(baseline.of(retrained=True), WHOLE) == WHOLE
    assert next_region(baseline.of(retrained=True), part) == part
    measured = replace(baseline, student=RegionRecord(counts(0.8), counts(0.78), part))
    assert next_region(measured.of(retrained=True), WHOLE) == WHOLE, "it sees in the whole what the download does not"
    assert next_region(measured.of(retrained=False), WHOLE) == part


def test_a_region_that_hardly_moved_stays_where_it_is() -> None:
    record = RegionRecord(counts(0.5), counts(0.7), (0.0, 0.21, 0.81, 1.0))
    assert next_region(record, (0.0, 0.2, 0.8, 1.0)) == (0.0, 0.2, 0.8, 1.0)
    assert next_region(record, (0.0, 0.5, 0.8, 1.0)) == record.region


def test_a_record_adds_up_and_forgets_a_region_that_is_none_any_more() -> None:
    labels = Detections.build([(0.1, 0.1, 0.3, 0.3)], [1.0], [0])
    pairs = [(labels, labels)] * 3
    record = RegionRecord().after(pairs, pairs, (0.0, 0.2, 0.8, 1.0)).after(pairs, pairs, (0.0, 0.3, 0.8, 1.0))
    assert record.region == (0.0, 0.3, 0.8, 1.0)
    assert record.part.objects == record.whole.objects > 3
    later = record.after(pairs, None, (0.0, 0.3, 0.8, 1.0))
    assert (later.region, later.part) == (WHOLE, ScoreCounts())


def test_what_past_windows_taught_is_remembered_and_fades() -> None:
    labels = Detections.build([(0.1, 0.1, 0.3, 0.3)], [1.0], [0])
    sure = Detections.build([(0.1, 0.1, 0.3, 0.3)], [0.8], [0])
    wrong = Detections.build([(0.1, 0.1, 0.3, 0.3), (0.6, 0.6, 0.8, 0.8)], [0.8, 0.3], [0, 0])
    learned = ScoreCounts().after([(wrong, labels)] * 5)
    assert 0.3 < learned.best_score(0.25) <= 0.8, "the wrong answers of 0.3 are left out"
    assert learned.best_f1 == 1.0
    later = learned.after([(sure, labels)])
    assert later.objects < learned.objects + 1
    assert ScoreCounts.from_json(later.to_json()) == later
    assert ScoreCounts().best_score(0.25) == 0.25
    record = RegionRecord(learned, later, (0.0, 0.1, 1.0, 0.9))
    for baseline in (Baseline(record), Baseline(RegionRecord(), record)):
        assert Baseline.from_json(baseline.to_json()) == baseline
    assert Baseline.from_json(record.to_json()) == Baseline(record), "as versions before wrote it"
