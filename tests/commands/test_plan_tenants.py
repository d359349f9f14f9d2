"""`magpie plan tenants`: a file, and a conversation by lines with odd ones among them."""

from __future__ import annotations

import errno
import io
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edge.cli import main
from edge.commands.plan_tenants import SharingStateFile, converse
from edge.core.errors import DiskFull, StoreError
from scheduler.tenants.measured import FairPolicy
from scheduler.tenants.policies import SHARING_POLICIES, ResumablePolicy, sharing_policy
from scheduler.tenants.values import SharingFeedback, SharingProblem, SharingState, SharingStep

PROBLEM: dict[str, Any] = {
    "type": "problem",
    "protocol": "tenant-arena/1",
    "name": "box",
    "kind": "tenants",
    "units": 100,
    "granularity": 0.5,
    "interval_s": 10,
    "reports_per_interval": 1,
    "tenants": [
        {"id": "gate", "goal": {"metric": "within_slo", "slo": 0.9, "utility": "linear"}, "weight": 1.0},
        {"id": "plates", "goal": {"metric": "accuracy", "slo": 0.6, "utility": "sqrt"}, "weight": 1.0},
    ],
}
PIPELINE = {
    "type": "problem",
    "kind": "pipeline",
    "units": 10,
    "granularity": 1,
    "services": ["find", "read"],
    "goal": {"metric": "p99_ms", "slo": 100},
}


def feedback(round_: int, performance: Any = 0.5, **fields: Any) -> dict[str, Any]:
    report = {"seconds": 10, "load": 4.0, "performance": performance, "allocation": 50.0}
    tenants = {tenant: {"reports": [report]} for tenant in ("gate", "plates")}
    return {"type": "feedback", "round": round_, "elapsed_s": 10.0 * (round_ + 1), "tenants": tenants, **fields}


def answers(lines: list[Any], policy: str | ResumablePolicy = "ew", state: Path | None = None) -> list[dict[str, Any]]:
    out = io.StringIO()
    text = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    kept = None if state is None else SharingStateFile(state)
    chosen = sharing_policy(policy) if isinstance(policy, str) else policy
    assert converse(chosen, [line + "\n" for line in text], out, 0, kept) == 0
    return [json.loads(line) for line in out.getvalue().splitlines()]


@pytest.mark.parametrize("policy", [name for name in SHARING_POLICIES if name != "e2e"])
def test_each_feedback_is_answered_by_the_next_round(policy: str) -> None:
    got = answers([PROBLEM, feedback(0), feedback(1), {"type": "end"}, feedback(2)], policy)
    assert [line["round"] for line in got] == [0, 1, 2]
    for line in got:
        assert set(line["allocation"]) == {"gate", "plates"}
        assert sum(line["allocation"].values()) <= 100.0


@pytest.mark.parametrize("policy", ["e2e", "evo-e2e", "fair"])
def test_services_are_answered_too(policy: str) -> None:
    report = {"seconds": 10, "load": 5.0, "performance": 150.0, "allocation": {"find": 5, "read": 5}}
    got = answers([PIPELINE, {"type": "feedback", "round": 0, "elapsed_s": 10, "reports": [report]}], policy)
    assert [line["round"] for line in got] == [0, 1]
    assert sum(got[1]["allocation"].values()) <= 10


ODD = [
    ("a line that is no JSON", "{", "feedback: got None"),
    ("an answered round again", feedback(0), "round: got 0"),
    ("a time that went back", feedback(2, elapsed_s=1.0), "elapsed_s: got 1.0"),
    ("no tenants", {"type": "feedback", "round": 2, "elapsed_s": 30}, "tenants: got None"),
    ("another kind", {"type": "gossip"}, "type: got 'gossip'"),
]


@pytest.mark.parametrize(("line", "words"), [(line, words) for _, line, words in ODD], ids=[name for name, _, _ in ODD])
def test_a_line_that_cannot_be_used_holds_the_allocation(
    capsys: pytest.CaptureFixture[str], line: Any, words: str
) -> None:
    got = answers([PROBLEM, feedback(0), feedback(1), line, feedback(2)])
    assert got[3] == got[2]
    assert words in capsys.readouterr().err
    # The lines behind it are answered as if the odd line had not been there.
    assert [got[n] for n in (0, 1, 2, 4)] == answers([PROBLEM, feedback(0), feedback(1), feedback(2)])


def test_after_a_clock_that_went_back_for_good_the_conversation_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    before = [feedback(0, elapsed_s=1000.0), feedback(1, elapsed_s=1010.0)]
    back = [feedback(n, elapsed_s=10.0 * n) for n in (2, 3, 4)]
    got = answers([PROBLEM, *before, *back])
    assert [line["round"] for line in got] == [0, 1, 2, 2, 4, 5], "held once, then as after a round that was left out"
    assert got[3] == got[2]
    assert capsys.readouterr().err.count("elapsed_s") == 1
    assert got[4:] == answers([PROBLEM, feedback(0), feedback(1), feedback(3), feedback(4)])[3:]


@pytest.mark.parametrize("performance", [float("nan"), -1, None, "good", 1.5])
def test_performance_that_is_no_number_is_not_learned(capsys: pytest.CaptureFixture[str], performance: Any) -> None:
    got = answers([PROBLEM, feedback(0, performance)])
    assert got[1]["allocation"] == got[0]["allocation"]
    assert "gate: 1 reports not used" in capsys.readouterr().err


def services_feedback(round_: int) -> dict[str, Any]:
    report = {"seconds": 10, "load": 5.0, "performance": 150.0, "allocation": {"find": 5, "read": 5}}
    return {"type": "feedback", "round": round_, "elapsed_s": 10.0 * (round_ + 1), "reports": [report]}


def of(policy: str) -> tuple[dict[str, Any], Any]:
    """A problem for `policy`, and its feedback by round."""
    return (PIPELINE, services_feedback) if policy == "e2e" else (PROBLEM, feedback)


@pytest.mark.parametrize("policy", SHARING_POLICIES)
def test_a_conversation_goes_on_from_the_state_of_the_one_before(tmp_path: Path, policy: str) -> None:
    problem, told = of(policy)
    whole = answers([problem, *(told(n) for n in range(14))], policy)
    state = tmp_path / "kept" / "state.json"
    first = answers([problem, *(told(n) for n in range(6))], policy, state)
    # The clock and the rounds of the second one begin anew.
    second = answers([problem, *(told(n) for n in range(8))], policy, state)
    assert [line["allocation"] for line in (*first, *second[1:])] == [line["allocation"] for line in whole]
    assert second[0] == {"round": 0, "allocation": first[-1]["allocation"]}
    assert [line["round"] for line in second] == list(range(9))
    assert [p.name for p in state.parent.iterdir()] == ["state.json"]


def test_a_state_is_kept_after_each_answer_and_a_driver_that_goes_on_can_count_on(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    answers([PROBLEM], state=state)
    assert json.loads(state.read_text())["state"]["round"] == 0
    answers([PROBLEM, feedback(0), feedback(1)], state=state)  # and is killed
    got = answers([PROBLEM, feedback(2), feedback(3)], state=state)
    assert [line["round"] for line in got] == [0, 3, 4]


def is_put_aside(said: str, state: Path) -> bool:
    """Whether standard error says that the state was put aside."""
    end = f"; put aside as {state.name}.bak, begun anew\n"
    return said.startswith(f"magpie plan: {state}: ") and said.endswith(end)


def damaged(state: Path, change: Any) -> None:
    value = json.loads(state.read_text())
    change(value)
    state.write_text(json.dumps(value))


@pytest.mark.parametrize(("change", "words"), [
    (lambda v: v.update(digest="0"), "problem: got 'box', allowed: the state of the problem box as it is now"),
    (lambda v: v.pop("state"), "state: got None"),
    (lambda v: v["state"].update(policy="sw"), "state.policy: got 'sw'"),
    (lambda v: v["state"].update(held=[1]), "state.held"),
    (lambda v: v["state"].update(held=[900, 900]), "state.held"),
    (lambda v: v["state"].update(round=-3), "state.round: got -3"),
    (lambda v: v["state"].update(round=float("nan")), "round: got nan, allowed: a finite number"),
    (lambda v: v["state"]["memory"].pop("tenants"), "memory.tenants: got None"),
    (lambda v: v["state"]["memory"]["tenants"].pop("gate"), "memory.tenants: got ['plates']"),
    (lambda v: v["state"]["memory"]["tenants"]["gate"].update(origin=0), "memory.tenants.gate.origin: got 0.0"),
    (lambda v: v["state"]["memory"]["tenants"]["gate"]["load"].update(mean=900), "memory.tenants.gate.load.mean"),
    (lambda v: v["state"]["memory"]["tenants"]["gate"]["load"].update(change=0), "memory.tenants.gate.load.change"),
    (lambda v: v["state"]["memory"]["tenants"]["gate"]["curve"].update(pairs=0), "memory.tenants.gate.curve.pairs"),
    (lambda v: v["state"]["memory"]["tenants"]["gate"]["curve"]["sums"].pop(), "memory.tenants.gate.curve.sums: got"),
    (lambda v: v["state"]["memory"]["tenants"]["gate"]["curve"]["bins"].__setitem__(0, 132), "curve.bins[0]: got 132"),
    (lambda v: v["state"]["memory"]["tenants"]["gate"].pop("curve"), "a memory as this version writes it"),
])  # fmt: skip
def test_a_state_that_is_damaged_or_of_something_else_is_told_and_not_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: Any, words: str
) -> None:
    state = tmp_path / "state.json"
    answers([PROBLEM, *(feedback(n, 0.2 + 0.1 * n) for n in range(4))], state=state)
    damaged(state, change)
    kept = state.read_bytes()
    capsys.readouterr()
    assert answers([PROBLEM, feedback(0)], state=state) == answers([PROBLEM, feedback(0)])
    said = capsys.readouterr().err
    assert words in said
    assert is_put_aside(said, state)
    assert json.loads(state.read_text())["state"]["round"] == 1, "and written anew"
    assert (tmp_path / "state.json.bak").read_bytes() == kept, "the old one is still there"


def test_another_problem_does_not_go_on_from_the_state(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state = tmp_path / "state.json"
    answers([PROBLEM, feedback(0)], state=state)
    heavier = [{**t, "weight": 2.0 - n} for n, t in enumerate(PROBLEM["tenants"])]
    assert answers([{**PROBLEM, "tenants": heavier}], state=state) == answers([{**PROBLEM, "tenants": heavier}])
    assert "as it is now; put aside as state.json.bak, begun anew" in capsys.readouterr().err


def test_states_of_other_policies_are_put_aside_under_names_of_their_own(tmp_path: Path) -> None:
    state, kept = tmp_path / "state.json", []
    for policy in ("ew", "sw", "fair"):
        answers([PROBLEM, feedback(0)], policy, state)
        kept.append(json.loads(state.read_text())["state"])
    aside = [json.loads((tmp_path / f"state.json.bak{n}").read_text())["state"] for n in ("", ".2")]
    assert aside == kept[:2]
    assert kept[2]["policy"] == "fair"
    (tmp_path / "first.json").write_bytes((tmp_path / "state.json.bak").read_bytes())
    assert answers([PROBLEM], "ew", tmp_path / "first.json")[0]["round"] == 0, "it can be gone on from"
    assert not (tmp_path / "first.json.bak").exists()


@pytest.mark.parametrize("content", [
    json.dumps(PROBLEM), json.dumps({"format": "other/1"}), "{", "", "[]", "notes", "[" * 100_000, "\x00\xff",
])  # fmt: skip
def test_a_file_that_is_no_state_is_refused_and_left_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], content: str
) -> None:
    file = tmp_path / "problem.json"
    file.write_text(content, encoding="latin-1")
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(PROBLEM) + "\n"))
    assert main(["plan", "tenants", "-", "--state", str(file)]) == 1
    out, err = capsys.readouterr()
    assert (out, file.read_text(encoding="latin-1")) == ("", content)
    assert err.startswith(f"magpie plan: --state: got '{file}', allowed: a new file, or a state of this command")
    assert [p.name for p in tmp_path.iterdir()] == ["problem.json"]


@pytest.mark.parametrize(("name", "words"), [("", "Is a directory"), ("a" * 300, "File name too long")])
def test_a_state_that_cannot_be_read_is_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, words: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(PROBLEM) + "\n"))
    assert main(["plan", "tenants", "-", "--state", str(tmp_path / name)]) == 1
    assert capsys.readouterr() == ("", f"magpie plan: {tmp_path / name}: {words}\n")


def test_a_state_that_may_not_be_read_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "stat", refused)
    monkeypatch.setattr(Path, "read_bytes", refused)
    with pytest.raises(StoreError, match=r"state\.json: Permission denied"):
        answers([PROBLEM], state=tmp_path / "state.json")


def test_no_state_is_written_over_where_it_cannot_be_put_aside(tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    answers([PROBLEM], "sw", state)
    before = state.read_bytes()
    for n in ("", *(f".{k}" for k in range(2, 100))):
        (tmp_path / f"state.json.bak{n}").write_text("")
    with pytest.raises(StoreError, match="99 files are put aside"):
        answers([PROBLEM], "ew", state)
    assert state.read_bytes() == before


def test_a_state_that_a_full_disk_keeps_from_being_put_aside_is_said_to_be_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    answers([PROBLEM], "sw", tmp_path / "state.json")
    monkeypatch.setattr(os, "link", full)
    monkeypatch.setattr(os, "rename", full)
    with pytest.raises(DiskFull, match=r"state\.json\.bak: no space left on the disk; state\.policy"):
        answers([PROBLEM], "ew", tmp_path / "state.json")


@pytest.mark.parametrize(("policy", "change", "words"), [
    ("e2e", lambda m: m["members"].pop(), "memory.members: got '11 values', allowed: 12"),
    ("e2e", lambda m: m["members"][3].pop(), "memory.members[3]: got '5 values', allowed: 6"),
    ("e2e", lambda m: m["members"][0].__setitem__(0, 1e9), "memory.members[0][0]"),
    ("e2e", lambda m: m["rows"].pop(), "memory.rows: got '3 values', allowed: 4"),
    ("e2e", lambda m: m["rows"][1].append(1.0), "memory.rows[1]: got '3 values', allowed: 2"),
    ("e2e", lambda m: m["rows"][1].__setitem__(0, 0.0), "memory.rows[1][0]"),
    ("e2e", lambda m: m.update(seen=float("inf")), "memory.seen: got inf, allowed: a finite number"),
    ("e2e", lambda m: m.update(seen=2.5), "memory.seen: got 2.5, allowed: a whole number"),
    ("e2e", lambda m: m.update(origin=float("inf")), "memory.origin: got inf, allowed: a finite number"),
    ("e2e", lambda m: m.update(origin=10**400), "memory.origin: got 1000"),
    ("evo-ew", lambda m: m["scores"].pop(), "memory.scores: got '3 values', allowed: 4"),
    ("evo-sw", lambda m: m["tried"][1].pop(), "memory.tried[1]: got '1 values', allowed: 2"),
    ("evo-sw", lambda m: m["tried"][1].__setitem__(0, -1), "memory.tried[1][0]: got -1"),
    ("ernest", lambda m: m["last"].pop(), "memory.last: got '1 values', allowed: 2"),
    ("ernest", lambda m: m["loads"][1].pop(), "memory.loads[1]: got '3 values', allowed: 4"),
    ("quasar", lambda m: m["units"][0].__setitem__(0, 0), "memory.units[0][0]"),
    ("quasar", lambda m: m["parts"].append([]), "memory.parts: got '3 values', allowed: 2"),
    ("fair", lambda m: m["targets"].pop(), "memory.targets: got '1 values', allowed: 2"),
    ("miad", lambda m: m["targets"].__setitem__(1, float("inf")), "memory.targets[1]: got inf"),
    ("minerva", lambda m: m.pop("targets"), "memory.targets: got None"),
])  # fmt: skip
def test_a_memory_that_no_conversation_leads_to_is_put_aside_before_anything_is_answered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], policy: str, change: Any, words: str
) -> None:
    problem, told = of(policy)
    state = tmp_path / "state.json"
    answers([problem, *(told(n) for n in range(4))], policy, state)
    damaged(state, lambda v: change(v["state"]["memory"]))
    capsys.readouterr()
    lines = [problem, *(told(n) for n in range(12))]
    assert answers(lines, policy, state) == answers(lines, policy)
    said = capsys.readouterr().err
    assert words in said
    assert is_put_aside(said, state)


class FailsOnWhatItRead(FairPolicy):
    """Fails where its first target is 7, which passes the checks."""

    def step(self, problem: SharingProblem, state: SharingState, feedback: SharingFeedback) -> SharingStep:
        """Raises OverflowError for such a state."""
        if state.memory["targets"][0] == 7:
            raise OverflowError("math range error")
        answer = super().step(problem, state, feedback)
        return replace(answer, state=replace(answer.state, seed=feedback.round))


@pytest.mark.parametrize("aside", [True, False])
def test_a_state_that_a_step_fails_on_is_put_aside_and_the_conversation_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, aside: bool
) -> None:
    state, policy = tmp_path / "state.json", FailsOnWhatItRead()
    answers([PROBLEM, *(feedback(n) for n in range(3))], policy, state)
    damaged(state, lambda v: v["state"]["memory"]["targets"].__setitem__(0, 7))

    def refused(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    if not aside:
        for name in ("link", "rename", "replace"):
            monkeypatch.setattr(os, name, refused)
    capsys.readouterr()
    got = answers([PROBLEM, feedback(2), feedback(3)], policy, state)
    assert [line["round"] for line in got] == [0, 3, 4]
    said = capsys.readouterr().err
    assert "OverflowError('math range error')" in said
    assert ("begun anew, the state is not kept" in said) == (not aside)
    if aside:
        assert is_put_aside(said, state)
        assert json.loads((tmp_path / "state.json.bak").read_text())["state"]["memory"]["targets"][0] == 7
        assert json.loads(state.read_text())["state"]["seed"] == 3, "rounds of the policy count from where it began"


def test_a_step_that_fails_without_a_state_that_was_read_is_no_damage() -> None:
    policy = FailsOnWhatItRead()
    seven = {**PROBLEM, "units": 14}
    with pytest.raises(OverflowError):
        converse(policy, [json.dumps(line) + "\n" for line in (seven, feedback(0))], io.StringIO(), 0)


def test_a_state_that_cannot_be_written_is_told_and_the_conversation_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert answers([PROBLEM, feedback(0)], state=tmp_path / "file" / "state.json") == answers([PROBLEM, feedback(0)])
    assert "the state is not kept" in capsys.readouterr().err


def test_the_command_takes_a_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state = tmp_path / "state.json"
    for _ in range(2):
        lines = [PROBLEM, feedback(0), feedback(1)]
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(json.dumps(line) + "\n" for line in lines)))
        assert main(["plan", "tenants", "-", "--state", str(state)]) == 0
    assert json.loads(state.read_text())["state"]["round"] == 4
    assert main(["plan", "tenants", str(state), "--state", str(state)]) == 1
    assert "--state" in capsys.readouterr().err


def test_late_feedback_after_a_gap_is_answered_with_its_next_round() -> None:
    assert [line["round"] for line in answers([PROBLEM, feedback(0), feedback(4)])] == [0, 1, 5]


def test_a_file_is_one_decision_with_reasons(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "problem.json"
    file.write_text(json.dumps({**PROBLEM, "history": [feedback(0), feedback(1)]}))
    assert main(["plan", "tenants", str(file)]) == 0
    value = json.loads(capsys.readouterr().out)
    assert (value["format"], value["policy"], value["round"]) == ("tenant-allocation/1", "ew", 2)
    assert value["reasons"]["gate"]["source"] == "learned"
    assert value["reasons"]["gate"]["reports"] == 2


def test_reports_of_a_history_that_are_not_used_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    problem = tmp_path / "p.json"
    problem.write_text(json.dumps({**PROBLEM, "history": [feedback(0, None)]}))
    assert main(["plan", "tenants", str(problem), "--policy", "ew"]) == 0
    assert "gate: 1 reports not used" in capsys.readouterr().err


def test_a_conversation_has_no_file_for_its_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "tenants", "-", "--out", "x.json"]) == 1
    assert "--out" in capsys.readouterr().err


def test_bad_input_ends_with_1_and_its_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "problem.json"
    for value, words in (
        ({**PROBLEM, "units": -1}, "units: got -1"),
        ({**PROBLEM, "history": 3}, "history: got 3"),
        ({**PROBLEM, "history": [feedback(0), feedback(0)]}, "history[1].round: got 0"),
    ):
        file.write_text(json.dumps(value))
        assert main(["plan", "tenants", str(file)]) == 1
        assert words in capsys.readouterr().err
    file.write_text(json.dumps(PROBLEM))
    assert main(["plan", "tenants", str(file), "--policy", "luck"]) == 1
    assert main(["plan", "tenants", str(file), "--seed", "-1"]) == 1


def test_a_conversation_begins_with_a_problem(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(feedback(0)) + "\n"))
    assert main(["plan", "tenants", "-"]) == 1
    assert "type: got 'feedback', allowed: problem" in capsys.readouterr().err
