"""True accuracy: the choice of questions, the estimate and its interval, and people who contradict each other."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from examples_kit import tried
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.core.errors import InvalidValue
from edge.core.truth import Agreed, Answer, AskableFrame, Candidate, FrameKey, Marked, Question, Source, Verdict
from scheduler.truth.choice import Population, chances, next_questions, order, population, probabilities, rank
from scheduler.truth.estimate import LEAST_ANSWERS, spread_variance, true_accuracy
from scheduler.truth.people import agreed
from scheduler.truth.predictions import Floats, Predictor, learned
from scheduler.truth.students_t import quantile
from scheduler.truth.windows import ENOUGH, window_to_ask

BOX = (0.2, 0.5, 0.3, 0.6)
Truth = dict[Question, Agreed]


def town(seed: int, frames: int = 24, real: float = 0.6, missed: float = 1.0) -> tuple[list[AskableFrame], Truth]:
    """Frames with candidates, and what a perfect person says: scores tell a little, as they do."""
    rng = np.random.default_rng(seed)
    out: list[AskableFrame] = []
    truth: Truth = {}
    for number in range(frames):
        key, found = FrameKey(1, number), []
        for index in range(int(rng.poisson(9))):
            score = float(rng.uniform(0.3, 0.95))
            group = int(rng.integers(0, 3))
            there = rng.random() < np.clip(real + 0.5 * (score - 0.6) + (0.15, -0.25, 0.0)[group], 0.02, 0.98)
            place = (0.1 + 0.7 * rng.random(), 0.1 + 0.7 * rng.random())
            box = (place[0], place[1], place[0] + 0.05, place[1] + 0.05)
            student, teacher = (box, box) if group == 0 else (box, None) if group == 1 else (None, box)
            found.append(Candidate(index, 0, student, teacher, score * (group != 2), score * (group != 1)))
            verdict: Verdict = "yes" if there else "no"
            truth[Question(key, "box", index)] = Agreed(verdict, None, 1, False)
        out.append(AskableFrame(key, tuple(found)))
        truth[Question(key, "missed")] = Agreed("counted", int(rng.poisson(missed)), 1, False)
    return out, truth


@cache
def asked_town(seed: int) -> tuple[list[AskableFrame], Truth, Population]:
    """The town and what may be asked there. To make both takes far longer than to estimate from answers."""
    frames, truth = town(seed)
    return frames, truth, population(frames, Predictor.prior(), 0)


def true_f1(asked: Population, truth: Truth) -> tuple[float, float]:
    """Of student and teacher, counted from every answer."""
    objects = sum(a.missed if a.missed is not None else a.verdict != "no" for a in truth.values())
    right = [
        sum(truth[q].verdict == "yes" for q, s in zip(asked.questions, asked.strata, strict=True) if s in ("both", who))
        for who in ("student", "teacher")
    ]
    return 2 * right[0] / (asked.student_boxes + objects), 2 * right[1] / (asked.teacher_boxes + objects)


def sitting(asked: Population, truth: Truth, seed: int, count: int) -> Truth:
    return {n.question: truth[n.question] for n in next_questions(asked, seed, (), (), count)}


# -- choice


@given(st.lists(st.floats(0.05, 20.0), min_size=1, max_size=60), st.integers(0, 70))
def test_probabilities_add_up_to_the_number_asked(sizes: list[float], count: int) -> None:
    found = probabilities(np.array(sizes), count)
    assert np.all((found >= 0) & (found <= 1))
    assert found.sum() == pytest.approx(min(count, len(sizes)))


def few(count: int) -> tuple[Floats, tuple[str, ...]]:
    """Sizes and strata of the questions of a small window."""
    size = np.resize([0.5, 0.5, 1.0, 1.0, 1.5, 2.0, 3.0, 0.7, 0.9, 1.1], count)
    return size, tuple(np.resize(["both", "student", "teacher", "both", "missed", "teacher", "both"], count))


@pytest.mark.parametrize(("questions", "count"), [(30, 9), (35, 10), (60, 30), (120, 10), (231, 30)])
def test_each_question_is_asked_as_often_as_its_probability_says(questions: int, count: int) -> None:
    size, strata = few(questions)
    ranks, asked, sums = rank(strata, 0), np.zeros(questions), dict.fromkeys(strata, 0.0)
    chance = chances(size, ranks, np.arange(questions), np.full(questions, count))
    for seed in range(5000):
        chosen = order(size, seed, ranks)[:count]
        asked[chosen] += 1
        for place in chosen:
            sums[strata[place]] += 1 / chance[place] / 5000
    assert chance.sum() == pytest.approx(count)
    assert np.abs(asked / 5000 - chance).max() < 0.025
    for stratum, found in sums.items():
        assert found == pytest.approx(strata.count(stratum), rel=0.02), "the weights add up to the questions"


def test_by_size_alone_a_probability_is_off_in_a_small_window_and_good_enough_in_a_large_one() -> None:
    size, strata = few(30)
    places = np.arange(30)
    exact = chances(size, rank(strata, 0), places, np.full(30, 9))
    assert np.abs(exact - probabilities(size, 9)).max() > 0.04
    size, strata = few(2001)
    found = chances(size, rank(strata, 0), places, np.full(30, 40))
    assert found.tolist() == probabilities(size, 40)[places].tolist()


def test_every_question_has_some_probability_and_all_are_asked_in_the_end() -> None:
    size, strata = few(700)
    by_size = probabilities(size, 3)
    found = chances(size, rank(strata, 0), np.arange(700), np.full(700, 3))
    assert (found >= by_size / 4.0).all()
    assert np.abs(found - by_size).max() > 0.0
    assert chances(size, rank(strata, 0), np.arange(700), np.full(700, 2)).tolist() == probabilities(size, 2).tolist()
    assert chances(size, rank(strata, 0), np.arange(2), np.array([700, 900])).tolist() == [1.0, 1.0]
    assert len(chances(size, rank(strata, 0), np.zeros(0, np.int64), np.zeros(0, np.int64))) == 0


def test_a_next_question_has_the_probability_that_the_estimate_weighs_it_with() -> None:
    asked = asked_town(3)[2]
    known = asked.questions[5:40]
    free = np.array([q not in known for q in asked.questions])
    ranks = asked.ranks[free]
    whole = next_questions(asked, 7, (), known, 30)
    left = [q for q in asked.questions if q not in known]
    for number in (0, 11, 29):
        place = np.array([left.index(whole[number].question)])
        expected = chances(asked.size[free], ranks, place, np.array([number + 1]))[0]
        assert whole[number].probability == pytest.approx(expected)
        again = next_questions(asked, 7, [n.question for n in whole[:number]], known, 1)
        assert again == whole[number : number + 1]


@given(st.lists(st.sampled_from(["both", "student", "teacher", "missed"]), max_size=80), st.integers(0, 2**64 - 1))
def test_the_spread_goes_stratum_by_stratum_in_an_order_of_its_seed(strata: list[str], seed: int) -> None:
    places = rank(strata, seed)
    assert sorted(places) == list(range(len(strata)))
    assert [strata[n] for n in np.argsort(places)] == sorted(strata)
    assert places.tolist() == rank(strata, seed).tolist()


def test_in_a_single_case_the_interval_covers_nearly_as_often_as_in_the_mean() -> None:
    """One window, asked with many seeds: no window has an order of questions of its own that misses the truth."""
    frames, truth = town(8)
    inside = []
    for seed in range(tried(100, 300)):
        asked = population(frames, Predictor.prior(), seed)
        found = true_accuracy(asked, len(frames), sitting(asked, truth, seed, 30))
        assert found is not None
        for interval, f1 in zip((found.student, found.teacher), true_f1(asked, truth), strict=True):
            inside.append(interval.low <= f1 <= interval.high)
    assert 0.82 <= np.mean(inside) <= 0.98


@given(st.integers(0, 10_000), st.integers(1, 120))
def test_questions_are_spread_evenly_over_the_strata_however_many_are_asked(seed: int, count: int) -> None:
    people = asked_town(3)[2]
    strata, expected = np.array(people.strata), probabilities(people.size, count)
    asked = order(people.size, seed, people.ranks)[:count]
    for stratum in set(people.strata):
        assert abs((strata[asked] == stratum).sum() - expected[strata == stratum].sum()) < 5.0


def test_the_weighted_answers_are_unbiased_whatever_was_predicted() -> None:
    frames, truth = town(3)
    asked = population(frames, Predictor.prior(), 0)
    value = np.array([float(truth[q].verdict == "yes") for q in asked.questions])
    ranks, sums = asked.ranks, []
    chance = chances(asked.size, ranks, np.arange(len(asked)), np.full(len(asked), 30))
    for seed in range(1500):
        chosen = order(asked.size, seed, ranks)[:30]
        sums.append((value[chosen] / chance[chosen]).sum())
    assert np.mean(sums) == pytest.approx(value.sum(), rel=0.03)


def test_questions_go_on_where_they_stopped_and_none_is_asked_twice() -> None:
    frames, _ = town(1)
    asked = population(frames, Predictor.prior(), 0)
    whole = [n.question for n in next_questions(asked, 7, (), (), 20)]
    first = [n.question for n in next_questions(asked, 7, (), (), 8)]
    rest = [n.question for n in next_questions(asked, 7, first, (), 12)]
    assert first + rest == whole
    known = set(whole[:3])
    assert [n.question for n in next_questions(asked, 7, (), known, 17)] == whole[3:]
    # Labels that are imported in the middle of a sitting: what is left goes on in the same order.
    known = {*whole[2:4], *whole[10:14], *asked.questions[-20:]}
    rest = [n.question for n in next_questions(asked, 7, whole[:8], known, len(asked))]
    everything = [n.question for n in next_questions(asked, 7, (), (), len(asked))]
    assert rest == [q for q in everything[8:] if q not in known]
    assert next_questions(asked, 7, asked.questions, (), 5) == []


def test_a_window_that_was_begun_is_finished_before_a_newer_one() -> None:
    assert window_to_ask([5, 4, 3], {}) == 5
    assert window_to_ask([5, 4, 3], {4: 12}) == 4
    assert window_to_ask([5, 4, 3], {4: ENOUGH}) == 5
    assert window_to_ask([5], {5: ENOUGH}) == 5
    assert window_to_ask([], {5: 3}) is None


# -- estimate


def test_every_question_answered_is_the_truth_itself() -> None:
    frames, truth = town(5)
    asked = population(frames, Predictor.prior(), 0)
    found = true_accuracy(asked, len(frames), truth)
    assert found is not None
    for interval, f1 in zip((found.student, found.teacher), true_f1(asked, truth), strict=True):
        assert (interval.low, interval.high, interval.more_to_halve) == (interval.value, interval.value, 0)
        assert interval.value == pytest.approx(f1)


@pytest.mark.parametrize("wrong", [False, True])
def test_the_interval_covers_whether_predictions_are_good_or_bad(wrong: bool) -> None:
    """100 towns or more, 30 answers each; with `wrong`, what the predictor expects is far off."""
    inside, errors = [], []
    for seed in range(tried(100, 200)):
        frames, truth = town(seed, real=0.25 if wrong else 0.6, missed=3.0 if wrong else 0.8)
        asked = population(frames, Predictor.prior(), 0)
        found = true_accuracy(asked, len(frames), sitting(asked, truth, seed, 30))
        assert found is not None
        for interval, f1 in zip((found.student, found.teacher), true_f1(asked, truth), strict=True):
            inside.append(interval.low <= f1 <= interval.high)
            errors.append(interval.value - f1)
    assert 0.84 <= np.mean(inside) <= 0.97
    assert abs(np.mean(errors)) < 0.02


def test_more_answers_are_never_wider_in_the_mean() -> None:
    widths = []
    for count in (8, 15, 30, 60, 120):
        mine = []
        for seed in range(25):
            frames, truth, asked = asked_town(seed)
            found = true_accuracy(asked, len(frames), sitting(asked, truth, seed, count))
            assert found is not None
            mine.append(found.student.width + found.teacher.width)
        widths.append(np.mean(mine))
    assert widths == sorted(widths, reverse=True)


def test_as_many_answers_more_as_promised_halve_the_interval() -> None:
    ratios = []
    for seed in range(25):
        frames, truth, asked = asked_town(seed)
        now = true_accuracy(asked, len(frames), sitting(asked, truth, seed, 30))
        assert now is not None
        assert now.teacher.more_to_halve
        then = true_accuracy(asked, len(frames), sitting(asked, truth, seed, 30 + now.teacher.more_to_halve))
        assert then is not None
        ratios.append(then.teacher.width / now.teacher.width)
    assert 0.4 <= np.mean(ratios) <= 0.6


def test_the_variance_of_a_spread_is_that_of_differences_within_the_strata() -> None:
    half = np.full(4, 0.5)
    assert spread_variance(np.ones(4), half, ["both"] * 4) == 0.0, "an error that all share is balanced"
    assert spread_variance(np.array([1.0, 1.0, -2.0, -2.0]), half, ["both", "both", "missed", "missed"]) == 0.0
    # Four that differ by 1 from their mean: 4 * 4 / 3; two that do, in another stratum, and one that is alone.
    error, strata = np.array([1.0, -1.0, 1.0, -1.0, 6.0, 4.0, 3.0]), ["both"] * 4 + ["missed"] * 2 + ["student"]
    assert spread_variance(error, np.full(7, 0.5), strata) == pytest.approx(16 / 3 + 4 + 9)
    # The same in another order of answering, and with one that is asked in any case.
    again = [6, 2, 4, 0, 1, 5, 3]
    mixed, names = np.append(error[again], 99.0), [*(strata[n] for n in again), "both"]
    assert spread_variance(mixed, np.append(np.full(7, 0.5), 1.0), names) == pytest.approx(16 / 3 + 4 + 9)


def test_few_answers_say_nothing_and_equal_answers_are_not_certain() -> None:
    frames, truth = town(2)
    asked = population(frames, Predictor.prior(), 0)
    few = dict(list(sitting(asked, truth, 1, 30).items())[: LEAST_ANSWERS - 1])
    assert true_accuracy(asked, len(frames), few) is None
    yes = {n.question: Agreed("yes", None, 1, False) for n in next_questions(asked, 1, (), (), 60)
           if n.question.kind == "box"}  # fmt: skip
    found = true_accuracy(asked, len(frames), dict(list(yes.items())[:6]))
    assert found is not None
    assert found.teacher.width > 0.15, "six answers that agree prove little"


@pytest.mark.parametrize("unsure", [0, 3])
def test_the_estimate_of_a_small_window_is_not_off_in_the_mean(unsure: int) -> None:
    """About 40 questions, 12 answers of which some are "not sure", predictions that are far off."""
    errors = []
    for seed in range(tried(300, 600)):
        frames, truth = town(seed, frames=4, real=0.4, missed=0.5)
        asked = population(frames, Predictor.prior(), 0)
        said = sitting(asked, truth, seed, 12)
        rng = np.random.default_rng(seed)
        said |= {list(said)[n]: Agreed("unsure", None, 1, False) for n in rng.choice(12, unsure, replace=False)}
        found = true_accuracy(asked, len(frames), said)
        assert found is not None
        f1 = true_f1(asked, truth)
        errors.append((found.student.value - f1[0], found.teacher.value - f1[1]))
    assert np.abs(np.mean(errors, axis=0)).max() < 0.03


def test_imported_answers_stand_for_themselves_only() -> None:
    """Labels of some pictures that a user picked: the rest is not taken to be like them."""
    inside = []
    for seed in range(tried(50, 100)):
        frames, truth, asked = asked_town(seed)
        known = {q for q in asked.questions if q.key.frame < 6}
        for draw in range(3):
            drawn = [n.question for n in next_questions(asked, 10 * seed + draw, (), known, 30)]
            found = true_accuracy(asked, len(frames), {q: truth[q] for q in (*known, *drawn)}, known)
            assert found is not None
            for interval, f1 in zip((found.student, found.teacher), true_f1(asked, truth), strict=True):
                inside.append(interval.low <= f1 <= interval.high)
    assert 0.85 <= np.mean(inside) <= 0.95
    alone = true_accuracy(asked, len(frames), {q: truth[q] for q in known}, known)
    assert alone is not None
    assert alone.teacher.width > 0.95, "pictures that a user picked say nothing about the others"


def test_a_teacher_worse_than_its_student_is_found() -> None:
    rng = np.random.default_rng(0)
    frames, truth = [], {}
    for number in range(20):
        key = FrameKey(1, number)
        found = []
        for index in range(8):
            box = (0.1 * index, 0.1, 0.1 * index + 0.05, 0.3)
            own = index < 5
            found.append(Candidate(index, 0, box if own else None, None if own else box, 0.8 * own, 0.8 * (not own)))
            said = rng.random() < (0.9 if own else 0.1)
            truth[Question(key, "box", index)] = Agreed("yes" if said else "no", None, 1, False)
        frames.append(AskableFrame(key, tuple(found)))
        truth[Question(key, "missed")] = Agreed("counted", 0, 1, False)
    asked = population(frames, Predictor.prior(), 0)
    estimate = true_accuracy(asked, 20, sitting(asked, truth, 4, 30))
    assert estimate is not None
    assert estimate.teacher_worse
    assert estimate.difference.low > 0.0


@settings(max_examples=tried(24, 60), deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 40), st.floats(0, 1), st.integers(0, 12))
def test_an_estimate_is_ordered_and_within_bounds(seed: int, count: int, real: float, frames: int) -> None:
    street, truth = town(seed, frames, real)
    asked = population(street, Predictor.prior(), 0)
    found = true_accuracy(asked, frames, sitting(asked, truth, seed, count))
    if found is None:
        assert count < LEAST_ANSWERS or not street
        return
    for interval in (found.student, found.teacher):
        assert 0.0 <= interval.low <= interval.value <= interval.high <= 1.0
    assert -1.0 <= found.difference.low <= found.difference.value <= found.difference.high <= 1.0
    assert found.answers == min(count, len(asked))


def test_predictions_learn_from_another_window_and_the_estimate_is_nearer_and_its_interval_narrower() -> None:
    """10 answers about towns unlike the first predictions, with these and with learned ones: differences in pairs."""
    nearer, narrower = [], []
    for seed in range(tried(60, 120)):
        frames, truth = town(seed, real=0.1, missed=6.0)
        now, said = town(seed + 500, real=0.1, missed=6.0)
        errors, widths = [], []
        for predictor in (learned(frames, truth), Predictor.prior()):
            asked = population(now, predictor, seed)
            for draw in range(2):
                found = true_accuracy(asked, len(now), sitting(asked, said, 10 * seed + draw, 10))
                assert found is not None
                errors.append(abs(found.teacher.value - true_f1(asked, said)[1]))
                widths.append(found.teacher.width)
        nearer.append(sum(errors[:2]) - sum(errors[2:]))
        narrower.append(sum(widths[:2]) - sum(widths[2:]))
    for differences in (nearer, narrower):
        assert np.mean(differences) < -2.0 * np.std(differences) / np.sqrt(len(differences)), "not by chance"
    assert learned([], {}).weights == Predictor.prior().weights


def test_t_quantiles_are_those_of_the_tables() -> None:
    table = {1: 6.314, 2: 2.920, 3: 2.353, 4: 2.132, 5: 2.015, 10: 1.812, 30: 1.697, 1000: 1.646}
    for freedom, value in table.items():
        assert quantile(0.9, freedom) == pytest.approx(value, abs=2e-3)


# -- people


def _said(verdict: Verdict, by: str, at: float = 0.0, imported_by: str | None = None) -> Answer:
    source: Source = "page" if imported_by is None else "import"
    return Answer(Question(FrameKey(1, 1), "box", 0), verdict, by, at, source=source, imported_by=imported_by)


@pytest.mark.parametrize(
    ("answers", "verdict", "contradicted"),
    [([_said("yes", "ann")], "yes", False), ([_said("yes", "ann"), _said("yes", "bob")], "yes", False),
     ([_said("yes", "ann"), _said("no", "bob")], "unsure", True),
     ([_said("yes", "ann"), _said("no", "bob"), _said("yes", "cy")], "yes", True),
     ([_said("unsure", "ann"), _said("no", "bob")], "no", False), ([_said("unsure", "ann")], "unsure", False),
     ([_said("yes", "ann", 1.0), _said("no", "ann", 2.0)], "no", False),
     ([_said("no", "ann", 2.0), _said("yes", "ann", 1.0), _said("no", "bob")], "no", False),
     ([_said("no", "ann", 9e12, "bob"), _said("yes", "ann", 1.0)], "yes", False),
     ([_said("no", "ann", 2.0, "bob"), _said("yes", "ann", 1.0, "bob")], "no", False)],
)  # fmt: skip
def test_the_majority_counts_and_a_tie_counts_for_nothing(
    answers: list[Answer], verdict: Verdict, contradicted: bool
) -> None:
    (found,) = agreed(answers).values()
    assert (found.verdict, found.contradicted) == (verdict, contradicted)


def test_contradictions_are_counted_and_widen_the_interval() -> None:
    wider = []
    for seed in range(20):
        _, truth, asked = asked_town(seed)
        said = sitting(asked, truth, seed, 30)
        tied = {q: Agreed("unsure", None, 2, True) for q in list(said)[::3]}
        one, two = true_accuracy(asked, 24, said), true_accuracy(asked, 24, said | tied)
        assert one is not None
        assert two is not None
        assert (two.contradicted, two.unsure, two.answers) == (10, 10, 20)
        wider.append(two.teacher.width - one.teacher.width)
    assert np.mean(wider) > 0


# -- values


def test_values_that_make_no_sense_are_refused() -> None:
    question = Question(FrameKey(1, 1), "missed")
    with pytest.raises(InvalidValue, match=r"question\.candidate"):
        Question(FrameKey(1, 1), "box")
    with pytest.raises(InvalidValue, match=r"answer\.verdict"):
        Answer(question, "yes", "ann", 0.0)
    with pytest.raises(InvalidValue, match=r"answer\.missed"):
        Answer(question, "counted", "ann", 0.0, 100)
    with pytest.raises(InvalidValue, match=r"answer\.missed"):
        Answer(question, "counted", "ann", 0.0, 0, (Marked(BOX, 0),))
    with pytest.raises(InvalidValue, match=r"marked\.box"):
        Marked((0.5, 0.1, 0.4, 0.2), 0)
    with pytest.raises(InvalidValue, match="candidate"):
        replace(Candidate(0, 0, BOX, None), student=None)


def test_the_decisions_import_no_part_that_touches_the_world() -> None:
    heavy = "('torch', 'cv2', 'fastapi', 'sqlalchemy')"
    code = f"import sys, scheduler.truth.estimate; print([m for m in {heavy} if m in sys.modules])"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )
