"""The learning budget: a window's spending on labels, on profiles and on retraining, weighed as one.

Each label, each trial and each retraining takes device seconds from the others and from inference. A small grid of
(labels per camera, trials per camera) is played: when would labels and profiles be ready, how many retrainings fit into
the rest, and which accuracy would that bring, by the costs and gains of past windows. The best budget that is ready in
time is taken; where none is, the one that is ready first.

Gains saturate: n labels and half of the exemplars bring n / (n + h) of what very many would, v picture visits
v / (v + g) of it, and with m held-out labels only m / (m + j) of it is seen by the gate. A choice that rests on k
trials loses c * 2^-k of the gain; c is learned as the gain of profiled choices over the best-known configuration. A
value that is not known yet has a wide prior.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from edge.core.learning import BudgetProblem, Cost, LearningBudget, LearningFacts

#: Labels per camera and window that are weighed.
LABELS = (8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128)
#: The golden model works this part of its share's time: labels come unevenly.
USED = 0.8
#: The share for measuring, and the part of a window that it shall take: profilers have other work, too.
LEAST_EVALUATION, MOST_EVALUATION, MEASURED_WITHIN = 0.05, 0.2, 0.5
#: The golden model has at least this share while there is anything to label, and at most this part of the capacity.
LEAST_GOLDEN, MOST_GOLDEN = 0.02, 0.6
#: A budget aims at this part of the time until which labels and profiles shall be ready.
AIM = 0.75
#: Labels per camera that wait at the boundary: the last of the sample, and one with the golden model.
BACKLOG = 1.5
#: Labels that bring half of what very many would; picture visits that do.
HALF_LABELS, HALF_VISITS = 16.0, 150.0
#: An older frame counts this part of a label of the window; held-out labels that show half of a gain to the gate.
EXEMPLAR_WORTH, HALF_JUDGED = 0.5, 2.0
#: Accuracy [0, 1] that being late by a whole window counts against a budget, where none is ready in time.
LATE_LOSS = 0.5
#: Retraining has at least this part of what labelling leaves, even where inference could use all of it.
LEAST_TRAINING = 0.35
#: Accuracy that inference loses when it has half of what it needs: answers get older.
HALF_INFERENCE_LOSS = 0.06
#: The models that a window ends with serve the next until it has retrained, for about half a window, and a third of
#: what they gained is there after each retraining that follows (benchmarks/bench_start_influence.py): 1/2 + 1/3 + ...
CARRY = 1.0
#: Picking exemplars by what a student sees in their pictures may take this part of a window, and must not make the
#: budget late; else labels must do. In each eighth window it is tried all the same: its cost changes.
MEMORY_WAIT, TRIED_EACH = 0.05, 8
#: While labels and profiles are awaited inference has at most this part of the capacity (controller.waiting_shares).
WAITING_INFERENCE = 0.7


class _Facts(NamedTuple):
    """LearningFacts with the prior in place of what is not known."""

    label_s: Cost = Cost(0.15, 0.15)
    trial_s: Cost = Cost(0.6, 0.6)
    setup_s: Cost = Cost(0.3, 0.3)
    visit_s: Cost = Cost(0.01, 0.01)
    memory_s: Cost = Cost(0.2, 0.2)
    evaluation_s: Cost = Cost(0.02, 0.02)
    wait: Cost = Cost(1.2, 0.2)
    gain: Cost = Cost(0.06, 0.04)
    gain_labels: Cost = Cost(32.0)
    choice: Cost = Cost(0.02, 0.02)


#: A learned gain never says less than this: else nothing would be tried again.
LEAST_GAIN = 0.01
#: A measured wait is believed within these factors of the predicted one.
WAIT_RANGE = (0.7, 4.0)


def _with_priors(facts: LearningFacts) -> _Facts:
    known = {k: v for k in facts.__dataclass_fields__ if (v := getattr(facts, k)) is not None}
    return _Facts(**known)


def decide(problem: BudgetProblem) -> LearningBudget:
    """The budget of one window; the operator's numbers are kept where they are given."""
    facts = _with_priors(problem.facts)
    labels = (problem.labels,) if problem.labels is not None else _label_grid(problem)
    if problem.profiling_s is not None:
        trials: tuple[int, ...] = (_trials_within(problem, facts),)
    else:
        trials = tuple(range(min(problem.least_trials, problem.families), problem.families + 1))
    found = [_played(problem, facts, n, k) for n in labels for k in trials]
    in_time = [one for one in found if not one[0].late]
    # Of equals the cheaper: fewer labels were played first.
    best, work = max(in_time or found, key=lambda one: round(one[0].value - _lateness(problem, one[0]), 6))
    return replace(best, reason=_words(problem, best, work, facts))


def _lateness(problem: BudgetProblem, b: LearningBudget) -> float:
    facts = _with_priors(problem.facts)
    measuring = problem.cameras * b.labels * facts.evaluation_s.value / (USED * problem.evaluation * problem.window_s)
    return LATE_LOSS * (max(0.0, b.ready_s / problem.window_s - AIM * problem.ready) + max(0.0, measuring - 1.0) / 4)


def _label_grid(problem: BudgetProblem) -> tuple[int, ...]:
    grid = tuple(n for n in LABELS if n <= problem.most_labels)
    return grid or (problem.most_labels,)


def _trials_within(problem: BudgetProblem, facts: _Facts) -> int:
    assert problem.profiling_s is not None
    return min(problem.families, max(1, math.floor(problem.profiling_s / max(facts.trial_s.value, 1e-9))))


def looks_in_time(memory_s: Cost | None, cameras: int, speed: float, window_s: float) -> bool:
    """Whether profilers that do `speed` device seconds in a second can look at the pictures of so many cameras in the
    time that there is for exemplars. True where the cost is not known yet."""
    return memory_s is None or cameras * memory_s.value <= speed * MEMORY_WAIT * window_s


def needed_golden_share(labels: float, label_s: Cost, seconds: float) -> float:
    """The share that labels `labels` frames within `seconds` as they come."""
    return max(LEAST_GOLDEN, labels * label_s.high / (USED * max(seconds, 1e-6)))


def needed_evaluation_share(frames: float, evaluation_s: Cost, seconds: float) -> float:
    """The share that measures the students in shadow on `frames` frames within half of `seconds`, within bounds."""
    wanted = frames * evaluation_s.value / (USED * MEASURED_WITHIN * max(seconds, 1e-6))
    return min(MOST_EVALUATION, max(LEAST_EVALUATION, wanted))


def most_golden_share(problem: BudgetProblem) -> float:
    """The largest share worth giving to the golden model, which works in one thread."""
    return max(LEAST_GOLDEN, min(MOST_GOLDEN * problem.capacity, problem.thread))


def _played(problem: BudgetProblem, facts: _Facts, labels: int, trials: int) -> tuple[LearningBudget, float]:
    """One budget with its expected outcome, and the device seconds of one retraining in it."""
    t, cameras, capacity = problem.window_s, problem.cameras, problem.capacity
    own = max(0.0, cameras * labels - problem.elsewhere * t)
    wanted = needed_golden_share(own, facts.label_s, t)
    golden = wanted if problem.golden_share is None else problem.golden_share
    most = most_golden_share(problem)
    behind = problem.golden_share is None and golden > most
    if problem.golden_share is None:
        golden = min(golden, most)
    rest = max(0.0, capacity - golden - problem.evaluation)
    # -- until labels and profiles are there
    waiting = min(1.2 * problem.inference, WAITING_INFERENCE * rest)
    spare = max(1e-3, rest - waiting + problem.evaluation)
    unlabelled = max(0.0, own * facts.label_s.value - golden * t)
    labelling = (BACKLOG * cameras * facts.label_s.high + unlabelled) / max(golden, min(problem.thread, spare / 2))
    each = min(problem.thread, spare / problem.profilers)
    rounds = math.ceil(cameras / problem.profilers)
    tried = problem.profiling_s if problem.profiling_s is not None else trials * facts.trial_s.value
    wait = min(WAIT_RANGE[1], max(WAIT_RANGE[0], facts.wait.value))
    until = AIM * problem.ready * t
    looking = rounds * facts.memory_s.value / each
    looks = (
        looks_in_time(facts.memory_s, cameras, problem.profilers * each, t) and wait * (labelling + looking) <= until
    )
    least = wait * (labelling + (looking if looks else 0.0))
    # Without trials for all, some cameras are tried in turn; the others retrain what is known best.
    enough = float(trials) if trials else min(1.0, problem.profilers / cameras)
    each_takes = rounds * (facts.setup_s.value + tried) if trials else facts.setup_s.value + facts.trial_s.value
    ready = least + wait * each_takes / each
    if ready > until:  # profilers hand in by then: a part of the trials is done
        enough *= max(0.0, until - least) / max(ready - least, 1e-9)
        ready = max(least, until)
    measuring = cameras * labels * facts.evaluation_s.value
    behind = behind or (problem.labels is None and measuring > USED * problem.evaluation * t)
    late = behind or ready > until
    # -- after that
    training = max(rest - problem.inference, LEAST_TRAINING * rest)
    value, retrainings, work = _retrained(problem, facts, labels, enough, ready, training)
    lacking = max(0.0, problem.inference - (rest - training)) / max(problem.inference, 1e-9)
    value -= 2.0 * HALF_INFERENCE_LOSS * lacking
    left = max(0.0, t - ready) * training / cameras
    tried = problem.profiling_s if problem.profiling_s is not None else max(1, trials) * facts.trial_s.high
    known = problem.facts.label_s is not None
    budget = LearningBudget(
        round(golden, 4), labels, trials, round(tried, 3), round(ready, 3), round(left, 3), retrainings,
        round(value, 6), known, late, "", looks,
    )  # fmt: skip
    return budget, work


def taught_part(labels: float, problem: BudgetProblem) -> float:
    """Part of the gain of very many labels that so many per camera bring, 0-1."""
    effective, judged = labels + EXEMPLAR_WORTH * problem.exemplars, problem.held_out * labels
    return effective / (effective + HALF_LABELS) * judged / (judged + HALF_JUDGED)


def _retrained(
    problem: BudgetProblem, facts: _Facts, labels: int, trials: float, ready: float, training: float
) -> tuple[float, float, float]:
    """(accuracy gained per camera over the window, retrainings that end in it, device seconds of one), for the length
    of retraining that gains most: all cameras one after another."""
    t, cameras = problem.window_s, problem.cameras
    gain = max(LEAST_GAIN, facts.gain.value)
    most = gain / taught_part(facts.gain_labels.value, problem)
    unsure = min(0.6, max(0.02, facts.choice.value / gain)) * 0.5**trials
    taught = most * taught_part(labels, problem) * (1.0 - unsure)
    frames = max(1.0, (1.0 - problem.held_out) * labels) + problem.exemplars
    best = (0.0, 0.0, 0.0)
    for epochs in problem.visits:
        visits = epochs * frames
        work = visits * facts.visit_s.value
        each = taught * visits / (visits + HALF_VISITS)
        step = work / max(min(training, cameras * problem.thread), 1e-9)
        first = max(step, work / problem.thread)
        ends = [ready + first + n * step for n in range(cameras)]
        done = [at for at in ends if at <= t]
        value = sum(each * ((t - at) / t + CARRY) for at in done) / cameras
        if value > best[0]:
            best = (value, float(len(done)), work)
    if best[1] == 0.0:
        # Nothing ends in time: a student that is half trained at the boundary is kept as it is, and gains its part.
        work = min(problem.visits) * frames * facts.visit_s.value
        part = max(0.0, t - ready) * training / max(cameras * work, 1e-9)
        return 0.25 * taught * min(1.0, part) * CARRY, min(float(cameras), part), work
    return best


def _words(problem: BudgetProblem, b: LearningBudget, work: float, facts: _Facts) -> str:
    words = (
        f"{b.labels} labels per camera at {facts.label_s.value:.3g} device seconds each, "
        f"{b.trials} of {problem.families} trials, retrainings of about {work:.3g} device seconds; "
        f"ready {b.ready_s:.0f} s into {problem.window_s:.0f} s"
    )
    if problem.elsewhere > 0.0:
        words += f"; other boxes make {problem.elsewhere * problem.window_s:.0f} of the labels"
    if not b.known:
        words += "; the costs are a first guess"
    if b.late:
        words += "; no budget is ready in time here: this is the least"
    return words
