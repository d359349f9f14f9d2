"""Names, amounts, patches, lives of tasks and steps of the lease: functions of values."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from examples_kit import tried
from hypothesis import given, settings
from hypothesis import strategies as st
from kubernetes_kit import Refused, patched

from edge.core import engine as port
from edge.core.errors import InvalidValue
from edge.core.fleet import UNBOUNDED, Avoidance, SpatialRule, TaskAt
from edge.engines import job_folders
from edge.engines import kubernetes_amounts as amounts
from edge.engines import kubernetes_lease as lease
from edge.engines import kubernetes_life as lives
from edge.engines import kubernetes_names as names
from edge.engines.kubernetes_api import ApiPatience, pause_s
from edge.engines.kubernetes_nodes import changes_for
from edge.engines.kubernetes_objects import NodeSeen, PodSeen, node_boxes, pod_seen
from edge.engines.kubernetes_patches import change_capacity, merge_capacity
from edge.engines.kubernetes_pods import Opening, PodOwner, PodSettings, pod_body, pod_for
from edge.engines.kubernetes_work import MOST_MESSAGE_BYTES, perform

EPHEMERAL = st.from_regex(r"[a-z][a-z0-9-]{0,30}:[A-Za-z0-9][A-Za-z0-9_./@=-]{0,126}", fullmatch=True)
PHYSICAL = st.from_regex(r"[A-Za-z][A-Za-z0-9_./-]{0,62}", fullmatch=True)
LEGAL = re.compile(r"magpie\.example/[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
LABEL = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
ANY_NAME = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_.@/-]{0,126}", fullmatch=True)
TASK = port.EngineTask(TaskAt("train", 3, "b1", 2), {"cpu": 1.5, "teacher:heavy": 0.25}, port.EngineWork("wait", {}))
LIFE = lives.TaskLife(TASK, "train-3", 0.0)


@settings(max_examples=tried(20, 50))
@given(st.one_of(EPHEMERAL, PHYSICAL))
def test_a_name_becomes_a_legal_one_and_comes_back(name: str) -> None:
    resource = names.resource_of(name)
    assert LEGAL.fullmatch(resource)
    assert names.name_of(resource, names.hashed_names({name: 1.0})) == name
    if not names.is_hashed(resource):
        assert names.name_of(resource, {}) == name


@settings(max_examples=tried(20, 50))
@given(st.lists(st.one_of(EPHEMERAL, PHYSICAL), unique=True, max_size=8))
def test_no_two_names_become_one(given_names: list[str]) -> None:
    assert len({names.resource_of(name) for name in given_names}) == len(given_names)


def test_names_are_those_of_the_documents_and_odd_ones_are_refused() -> None:
    assert names.resource_of("zone:gate-north") == "magpie.example/zone.gate-north"
    assert names.resource_of("model:plates@3") == "magpie.example/model.plates_a3"
    assert names.name_of("nvidia.com/gpu", {}) is None
    assert names.name_of(names.resource_of("zone:" + "x" * 100), {}) is None
    for odd in ("zone:gate north", "Zone:x", "zone:", "zone:é", "a:b:c"):
        with pytest.raises(InvalidValue, match="name: got"):
            names.resource_of(odd)


@settings(max_examples=tried(20, 50))
@given(ANY_NAME, st.integers(0, 99_999), st.integers(0, 10**6))
def test_pods_and_labels_have_legal_names_for_every_task(job: str, number: int, epoch: int) -> None:
    at = TaskAt(job, number, "b1", epoch)
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", names.pod_name(at))
    assert names.pod_name(at) != names.pod_name(replace(at, epoch=epoch + 1))
    assert LABEL.fullmatch(names.label_value(job))
    task = port.EngineTask(at, {"cpu": 0.5, "zone:" + "x" * 90: 1.0}, port.EngineWork("wait", {}))
    body = pod_body(pod_for(task, Opening("yard", "l1", "dynamic"), PodSettings("magpie:1")))
    seen = pod_seen(body)
    assert (seen.task, seen.life, seen.node) == (at, "l1", "b1")
    assert list(seen.whole_names.values()) == ["zone:" + "x" * 90]
    (container,) = body["spec"]["containers"]
    assert container["resources"]["requests"] == container["resources"]["limits"]


@given(st.integers(0, 999_999))
def test_counts_of_amounts_come_back(count: int) -> None:
    assert amounts.count_of("capacity", count / 1000) == count
    assert amounts.amount_of(str(count)) == count / 1000


@given(st.floats(0.0, 900.0), st.floats(0.0, 99.0))
def test_demands_are_rounded_so_that_nothing_is_over_booked(first: float, second: float) -> None:
    total = amounts.demand_count("demand", first) + amounts.demand_count("demand", second)
    assert total >= (first + second) * 1000 - 1e-6


def test_amounts_that_cannot_be_counted_are_refused() -> None:
    assert amounts.count_of("capacity", UNBOUNDED) == 1_000_000
    assert amounts.amount_of("1000000") == UNBOUNDED
    assert amounts.free_amount("1000000", 2000) == UNBOUNDED - 2
    for wrong in (0.0005, 1000.0, -1.0):
        with pytest.raises(InvalidValue, match="capacity"):
            amounts.count_of("capacity", wrong)
    assert [amounts.native_quantity("cpu", a) for a in (0.5, 2.0)] == ["500m", "2"]
    assert amounts.native_amount("mem_gb", "16Gi") == pytest.approx(17.18, abs=0.01)
    with pytest.raises(InvalidValue, match="quantity"):
        amounts.parse_quantity("16 gigabytes")


COUNTS = st.dictionaries(st.sampled_from("abcd"), st.integers(1, 9).map(str))


@settings(max_examples=tried(20, 50))
@given(COUNTS, st.dictionaries(st.sampled_from("abcd"), st.integers(0, 9)), COUNTS)
def test_a_patch_of_counts_makes_those_wanted_or_nothing(
    known: dict[str, str], wanted: dict[str, int], truth: dict[str, str]
) -> None:
    changes = changes_for(known, wanted)
    node = {"status": {"capacity": dict(truth), "allocatable": dict(truth)}}
    try:
        after = patched(node, change_capacity(changes))
    except Refused:
        assert any(truth.get(c.resource) != c.before for c in changes)
        return
    assert {k: v for k, v in after["status"]["capacity"].items() if k not in {c.resource for c in changes}} == {
        k: v for k, v in truth.items() if k not in {c.resource for c in changes}
    }
    assert all(
        after["status"][part].get(c.resource) == c.after for c in changes for part in ("capacity", "allocatable")
    )
    cleared = patched(after, merge_capacity(dict.fromkeys("abcd")))
    assert cleared["status"]["capacity"] == {}


@given(st.lists(st.fractions(0, 1).map(float), max_size=6))
def test_free_is_what_pods_do_not_ask_for(asked: list[float]) -> None:
    node = NodeSeen("b1", True, False, {}, {"magpie.example/teacher.heavy": "4000", "cpu": "8"})
    pods = [
        PodSeen(f"p{n}", "Running", node="b1", asked={"magpie.example/teacher.heavy": str(round(a * 500)), "cpu": "1"})
        for n, a in enumerate(asked)
    ]
    (box,) = node_boxes(
        [node, NodeSeen("b2", False, False)], [*pods, PodSeen("old", "Succeeded", node="b1", asked={"cpu": "8"})]
    )
    assert box.free["cpu"] == 8 - len(asked)
    assert box.free["teacher:heavy"] == pytest.approx(4 - sum(round(a * 500) for a in asked) / 1000)


SIGHTS = st.builds(
    PodSeen,
    name=st.just("train-3"),
    phase=st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Unknown"]),
    began=st.booleans(),
    exit_code=st.sampled_from([None, 0, 1, 137]),
    message=st.sampled_from(["", "{}", "[]", '{"answer": 1, "ran_s": 2.5}', '{"why": "no"}', '{"why": 3}', "not JSON"]),
    reason=st.sampled_from(["", "Error", "Evicted", "OOMKilled", "Completed"]),
)
ENDS = (port.EngineTaskEnded, port.EngineTaskFailed, port.EngineTaskCancelled)


@settings(max_examples=tried(20, 50))
@given(st.lists(SIGHTS, max_size=8), st.integers(0, 8))
def test_each_task_has_one_start_at_most_and_exactly_one_end(sights: list[PodSeen], cancel_at: int) -> None:
    life: lives.TaskLife | None = LIFE
    events: list[port.EngineEvent] = []
    for number, pod in enumerate(sights):
        if life is None:
            break
        life = replace(life, cancelling=life.cancelling or number == cancel_at)
        step = lives.seen(life, pod, float(number))
        life = step.life
        events.extend(step.events)
    if life is not None:
        events.extend(lives.gone(life, 9.0).events)
    assert sum(isinstance(e, ENDS) for e in events) == 1
    assert isinstance(events[-1], ENDS)
    assert sum(isinstance(e, port.EngineTaskStarted) for e in events) <= 1


def test_ends_show_whether_the_work_may_be_done_again() -> None:
    def end(**seen: object) -> port.EngineEvent:
        return lives.seen(LIFE, PodSeen("train-3", **seen), 1.0).events[-1]  # type: ignore[arg-type]

    answered = end(phase="Succeeded", message='{"answer": {"a": 1}, "ran_s": 2.5}')
    assert answered == port.EngineTaskEnded(1.0, TASK.at, 2.5, {"a": 1})
    raised = end(phase="Failed", exit_code=1, message='{"why": "no"}')
    assert raised == port.EngineTaskFailed(1.0, TASK.at, lost=False, why="no")
    for reason, lost in (("Evicted", True), ("Error", True), ("OOMKilled", False), ("StartError", False)):
        failed = end(phase="Failed", exit_code=137, reason=reason)
        assert isinstance(failed, port.EngineTaskFailed)
        assert failed.lost is lost


def test_a_pod_has_the_folder_that_its_work_names_and_model_files() -> None:
    def spec(named: str | None, **folders: str) -> tuple[dict[str, Any], dict[str, str]]:
        task = replace(TASK, work=port.EngineWork("label", {} if named is None else {"folder": named}))
        made = pod_for(task, Opening("yard", "l1", "pinned"), PodSettings("magpie:1", folders=folders))
        (container,) = pod_body(made)["spec"]["containers"]
        return pod_body(made)["spec"] | container, {row["name"]: row["value"] for row in container["env"]}

    pod, variables = spec("night", night="/mnt/night", models="/mnt/models", other="/mnt/other")
    mounts = {row["name"]: row["mountPath"] for row in pod["volumeMounts"]}
    assert mounts == {"scratch": "/tmp", "folder-0": "/mnt/night", "folder-1": "/mnt/models"}
    volumes = {row["name"]: row.get("hostPath") for row in pod["volumes"]}
    assert volumes["folder-0"] == {"path": "/mnt/night", "type": "Directory"}
    assert variables["MAGPIE_MODELS"] == "/mnt/models"
    assert job_folders.folder_of("night", variables) == Path("/mnt/night")
    pod, variables = spec(None, night="/mnt/night", models="/mnt/models")
    assert [row["name"] for row in pod["volumes"]] == ["scratch"]
    assert set(variables) == {"MAGPIE_WORK"}
    with pytest.raises(InvalidValue, match="it has none"):
        job_folders.folder_of("night", variables)


def test_a_program_leaves_its_answer_or_its_error_and_no_more_than_fits() -> None:
    code, message = perform(json.dumps({"program": "wait", "arguments": {"seconds": 0}}))
    assert code == 0
    assert message["answer"]["held_s"] >= 0.0
    code, message = perform(json.dumps({"program": "wait", "arguments": {"seconds": -1, "é" * 5000: 1}}))
    assert code == 1
    assert len(json.dumps(message).encode()) <= MOST_MESSAGE_BYTES
    for wrong in ("", "[]", "{}", '{"program": 1, "arguments": {}}'):
        assert perform(wrong)[0] == 2


@given(st.integers(1, 5000), st.floats(0.0, 1.0), st.one_of(st.none(), st.floats(0.0, 100.0)))
def test_pauses_grow_to_their_longest(tried: int, chance: float, wish: float | None) -> None:
    patience = ApiPatience()
    pause = pause_s(patience, tried, chance, wish)
    assert patience.first_s / 2 <= pause <= patience.most_s
    assert pause_s(patience, tried + 1, chance, wish) >= pause


@settings(max_examples=tried(20, 50))
@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b", "c"]), st.floats(0.1, 9.0), st.booleans(), st.floats(0.0, 3.0)),
        max_size=60,
    ),
    st.dictionaries(st.sampled_from(["a", "b", "c"]), st.floats(-1e5, 1e5)),
)
def test_there_are_never_two_heads(turns: list[tuple[str, float, bool, float]], clocks: dict[str, float]) -> None:
    """Candidates act in any order, with wrong clocks, lost answers and slow requests."""
    states = {name: lease.LeaseState() for name in ("a", "b", "c")}
    rules = {name: lease.LeaseRules(name) for name in states}
    stored: lease.LeaseSeen | None = None
    now_s, version = 0.0, 0
    for name, passed_s, answered, slow_s in turns:
        now_s += passed_s
        mine_s = now_s + clocks.get(name, 0.0)
        states[name] = lease.observe(states[name], stored, mine_s)
        if stored is None or stored.holder != name:
            states[name] = lease.lost(states[name])
        step = lease.next_step(rules[name], states[name], mine_s)
        now_s += slow_s
        if not isinstance(step, lease.LeaveLease):
            version += 1
            stored = lease.LeaseSeen(name, 15.0, str(version))
            if answered:
                states[name] = lease.written(states[name], stored, mine_s)
        heads = [n for n, s in states.items() if lease.holds(rules[n], s, now_s + clocks.get(n, 0.0))]
        assert len(heads) <= 1


def test_a_released_lease_has_no_holder() -> None:
    rules = lease.LeaseRules("a")
    body = lease.release_body(rules, "magpie", datetime(2026, 1, 1, tzinfo=UTC), "7")
    seen = lease.lease_seen({**body, "metadata": {**body["metadata"], "resourceVersion": "8"}})
    other = lease.LeaseState(seen, 0.0)
    assert lease.next_step(lease.LeaseRules("b"), other, 0.0) == lease.WriteLease("8")
    with pytest.raises(InvalidValue, match="renew_s"):
        lease.LeaseRules("a", renew_s=14.0)


@pytest.mark.parametrize("mode", port.ENGINE_MODES)
def test_pods_and_leases_are_valid_objects_of_kubernetes(mode: port.EngineMode) -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="kubernetes-validate is not installed")
    opening = Opening("yard", "l1", mode, PodOwner("head", "uid-1"), kueue=mode == "dynamic")
    other = replace(TASK.at, task=4)
    rule = SpatialRule(near=("served",), zone={"site": ("north",)}, avoid=Avoidance("plates"))
    pod = pod_for(
        replace(TASK, work=port.EngineWork("label", {"folder": "night"})),
        opening,
        PodSettings("magpie:1", queue="site-a", folders={"night": "/mnt/night"}),
        rule=rule,
        companions=frozenset({"served"}),
        gang=(TASK.at, other),
    )
    body = pod_body(pod)
    assert ("schedulingGates" in body["spec"]) is (mode == "pinned")  # Kueue gates by itself
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    for version in ("1.30", "1.34"):
        validate.validate(body, version, strict=True)
        validate.validate(lease.lease_body(lease.LeaseRules("a"), "magpie", moment, "7"), version, strict=True)
