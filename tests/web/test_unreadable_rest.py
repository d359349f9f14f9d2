"""Records that this release cannot read, in a real database, by the real services over REST: lists omit them."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import sqlalchemy as sa
from appliance_double import DictAppliance, settings

from edge.appliance.alarms import Alarms
from edge.appliance.journal import Journal
from edge.appliance.models import Models
from edge.appliance.windows import Windows
from edge.core.alarms import Alarm, ServedNow
from edge.core.clock import ManualClock
from edge.core.configs import InferenceConfig, RetrainingConfig, StudentSpec
from edge.core.errors import StoreError, UnreadableRecord
from edge.core.models import ModelVersion
from edge.core.plan_causes import PlanCause
from edge.core.profiles import Estimate, InferencePoint, InferenceProfile, RetrainingProfile
from edge.core.shares import ShareCaps
from edge.core.tracks import TrackedObject
from edge.core.truth import Answer, FrameKey, Question
from edge.core.window import RetrainingOption, StreamProblem, WindowProblem
from edge.settings import RetrainingSettings, SiteSettings, parse
from edge.store.answers import AnswerRecord
from edge.store.journal import JournalBuffer
from edge.store.store import Store
from scheduler.policies import window_policy
from web.app import create_app

CAPS = ShareCaps("coop", "cpu", "cap", "live", 0.01, 0.01, 2.0, True, False, "worker")
SPEC = StudentSpec("classification", "shufflenet_v2", ("car", "bus"), (64, 64))
PROFILE = RetrainingProfile(RetrainingConfig(epochs=5), 0.5, Estimate(0.8, 0.7, 0.9), Estimate.exact(12.5))


def problem() -> WindowProblem:
    answers = InferenceProfile("linear", 0.3, points=(InferencePoint(InferenceConfig(5.0), 0.2, 1.0),))
    option = RetrainingOption(PROFILE.config.id, 0.8, 12.5, details=PROFILE.config.to_json())
    return WindowProblem("w", 0.5, 60.0, (StreamProblem("north", 0.5, answers, (option,)),), 0.05)


@pytest.fixture
def store(upgraded_data: Path) -> Iterator[Store]:
    with Store(None, upgraded_data, clock=ManualClock()) as store:
        parent = None
        for number in (1, 2, 3):
            store.windows.open_window(1e9 + 60.0 * number, 60.0, "relay", number=number)
            store.windows.put_camera_window(number, "north", frames_sampled=4)
            store.windows.put_camera_window(number, "south", frames_sampled=4)
            store.windows.add_plan(number, problem(), window_policy("relay").plan(problem()), PlanCause("prepared"))
            store.windows.add_plan(number, problem(), window_policy("relay").plan(problem()), PlanCause("prepared"))
            store.windows.add_profiles(number, "north", [PROFILE])
            store.journal.append("model.promoted", camera="north", window=number, data={"version": f"v{number}"})
            version = ModelVersion(f"v{number}", "north", "0" * 64, SPEC, 1e9 + number, parent)
            parent = store.add_model(version, b"%d" % number).id
            alarm = Alarm(number, "r", "r", "object", "warning", "north", "1", "new", 1e9, "a car")
            store.alarms.put_alarms([alarm])
            tracked = TrackedObject(number, "north", "car", 0.9, (0.1, 0.1, 0.2, 0.2), 1e9, 1e9, 1.0, 3)
            store.alarms.put_objects([tracked])
        yield store


@pytest.fixture
def service(store: Store) -> DictAppliance:
    """The double, with the real services of everything that is kept in the database."""
    runtime: Any = SimpleNamespace(
        camera=lambda name: None,
        share_usage=lambda number: [],
        window=SimpleNamespace(settings=RetrainingSettings()),
        shares=SimpleNamespace(front=0.0, golden=0.1, evaluation=0.05, partitioner=SimpleNamespace(caps=CAPS)),
    )
    double: Any = DictAppliance()
    double.windows = Windows(store, runtime, 0.1, double.windows.capacity)  # type: ignore[arg-type]
    double.models = Models(store, runtime)
    double.events = Journal(JournalBuffer(store.journal), store, ManualClock())
    site = parse(SiteSettings, {"site": "box", "data_dir": str(store.data_dir), "cameras": [settings("north")]})
    double.alarms = Alarms(
        site, store, ManualClock(), dict, lambda camera, order: True, partial(ServedNow, {}),
        lambda *args: None, lambda *args: None, lambda entry: None, lambda code, message: None,
    )  # fmt: skip
    return double


@pytest.fixture
async def client(service: DictAppliance, tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(create_app(service, static=tmp_path))
    async with httpx.AsyncClient(transport=transport, base_url="http://box/api/v1") as client:
        yield client


def spoil(store: Store, statement: str) -> None:
    with store.database.write() as c:
        assert c.execute(sa.text(statement)).rowcount > 0


async def asked(client: httpx.AsyncClient, path: str) -> Any:
    response = await client.get(path)
    assert response.status_code == 200, response.text
    return response.json()


#: The fault; the list; the key of its rows; those that are left; kind and name of the record; a word of the log.
LISTS = (
    ("UPDATE windows SET outcome = 'paused' WHERE id = 2", "/windows", "id", [3, 1], "window 2", "outcome"),
    ("UPDATE windows SET details = '[1]' WHERE id = 3", "/windows", "id", [2, 1], "window 3", "details"),
    ("UPDATE windows SET settings = '{' WHERE id = 3", "/windows", "id", [2, 1], "window 3", "settings"),
    ("UPDATE windows SET length_s = 'long' WHERE id = 1", "/windows", "id", [3, 2], "window 1", "length_s"),
    ("UPDATE versions SET spec = '{}' WHERE id = 'v2'", "/cameras/north/models", "id", ["v3", "v1"],
     "model version v2", "missing"),
    ("UPDATE versions SET scores = '{\"held_out\": \"good\"}' WHERE id = 'v2'", "/cameras/north/models", "id",
     ["v3", "v1"], "model version v2", "held_out"),
    ("UPDATE versions SET spec = '{}' WHERE id = 'v2'", "/models/v3/lineage", "id", ["v3", "v1"],
     "model version v2", "missing"),
    ("UPDATE journal SET data = '[1]' WHERE id = 2", "/events", "id", [3, 1], "journal entry 2", "data"),
    ("UPDATE journal SET at_utc_s = 'noon' WHERE id = 3", "/events", "id", [2, 1], "journal entry 3", "utc_s"),
    ("UPDATE alarms SET kind = 'smell' WHERE id = 2", "/alarms", "id", [3, 1], "alarm 2", "kind"),
    ("UPDATE alarms SET picture_bytes = 'many' WHERE id = 2", "/alarms", "id", [3, 1], "alarm 2", "'>'"),
    ("UPDATE objects SET box = '[1, 2]' WHERE id = 2", "/objects", "id", [3, 1], "object 2", "box"),
)  # fmt: skip


@pytest.mark.parametrize(("wrong", "path", "key", "left", "record", "words"), LISTS)
async def test_a_list_goes_on_without_a_record_that_cannot_be_read(
    wrong: str, path: str, key: str, left: list[Any], record: str, words: str,
    store: Store, client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    assert len(await asked(client, path)) == 3
    spoil(store, wrong)
    with caplog.at_level(logging.ERROR, "edge.store.unreadable"):
        for _ in range(2):
            assert [row[key] for row in await asked(client, path)] == left
    (line,) = [r.getMessage() for r in caplog.records if r.name == "edge.store.unreadable"]
    assert line.startswith(record + " ")
    assert words in line
    assert store.database.unreadable.counts() == {record.rsplit(" ", 1)[0]: 1}


@pytest.mark.parametrize("path", ["/windows", "/events", "/alarms", "/objects"])
async def test_a_page_is_filled_past_what_cannot_be_read(path: str, store: Store, client: httpx.AsyncClient) -> None:
    """A reader takes a short page for the last one."""
    for table, column in (("windows", "details"), ("journal", "data"), ("alarms", "details"), ("objects", "zone_s")):
        spoil(store, f"UPDATE {table} SET {column} = '7' WHERE id >= 2")
    assert [row["id"] for row in await asked(client, f"{path}?limit=1")] == [1]


@pytest.mark.parametrize(
    ("wrong", "path", "words"),
    [
        ("UPDATE windows SET outcome = 'paused' WHERE id = 2", "/windows/2", "window 2"),
        ("UPDATE windows SET outcome = 'paused' WHERE id = 2", "/windows/2/explained", "window 2"),
        ("UPDATE versions SET spec = '{}' WHERE id = 'v2'", "/models/v2/lineage", "model version v2"),
        ("UPDATE alarms SET picture_bytes = 'many' WHERE id = 2", "/alarms/2/picture.jpg", "alarm 2"),
        ("UPDATE objects SET box = '7' WHERE id = 2", "/objects/2/picture.jpg", "object 2"),
    ],
)
async def test_one_that_is_asked_for_says_what_is_wrong(
    wrong: str, path: str, words: str, store: Store, client: httpx.AsyncClient
) -> None:
    spoil(store, wrong)
    response = await client.get(path)
    assert response.status_code == 503
    error = response.json()["error"]
    assert error["code"] == "unreadable_record"
    assert words in error["message"]


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        ("UPDATE plans SET cause_code = 'mood' WHERE id = 3", "plan"),
        ("UPDATE profiles SET profile = '7' WHERE id = 2", "profile"),
    ],
)
async def test_a_window_is_reported_without_its_part_that_cannot_be_read(
    wrong: str, kind: str, store: Store, client: httpx.AsyncClient
) -> None:
    spoil(store, wrong)
    story = await asked(client, "/windows/2")
    assert [p["id"] for p in story["plans"]] == ([4] if kind == "plan" else [3, 4])
    assert len(story["profiles"]) == (1 if kind == "plan" else 0)
    body = await asked(client, "/windows/2/explained")
    assert {d["plan"] for d in body["decisions"]} <= {p["id"] for p in story["plans"]}
    assert store.database.unreadable.counts() == {kind: 1}


@pytest.mark.parametrize("document", ["'{}'", "'{'", "json_set(plan, '$.segments', 'none')"])
async def test_a_plan_of_which_nothing_can_be_made_is_not_explained(
    document: str, store: Store, client: httpx.AsyncClient
) -> None:
    spoil(store, f"UPDATE plans SET plan = {document} WHERE id = 4")
    body = await asked(client, "/windows/2/explained")
    assert [d["plan"] for d in body["decisions"]] == [3]
    answer = await client.post("/windows/2/what-if", json={"policy": "uniform"})
    assert answer.status_code == 200, answer.text


async def test_a_camera_s_row_that_cannot_be_read_leaves_the_window(store: Store, client: httpx.AsyncClient) -> None:
    spoil(store, "UPDATE camera_windows SET losses = '[]' WHERE window = 2 AND camera = 'north'")
    second = next(w for w in await asked(client, "/windows") if w["id"] == 2)
    assert [c["camera"] for c in second["cameras"]] == ["south"]
    assert [c["camera"] for c in (await asked(client, "/windows/2"))["window"]["cameras"]] == ["south"]
    assert store.database.unreadable.counts() == {"window's camera": 1}


def test_answers_of_people_are_read_past_one_that_cannot(store: Store) -> None:
    for frame in range(3):
        question = Question(FrameKey(1, frame), "box", 0)
        store.answers.add_answers([AnswerRecord("north", Answer(question, "yes", "ann", 1e9), (), "car")])
    spoil(store, "UPDATE answers SET marked = '7' WHERE id = 2")
    assert [r.id for r in store.answers.all_answers("north")] == [1, 3]
    assert [r.id for r in store.answers.page("north", limit=2)] == [1, 3]


def test_decisions_do_not_go_on_without_a_record(store: Store) -> None:
    """What is rolled back to, and what retention may delete, is decided on all versions or not at all."""
    spoil(store, "UPDATE versions SET spec = '{}' WHERE id = 'v2'")
    with pytest.raises(UnreadableRecord, match="model version v2"):
        store.versions.lineage("v3")
    with pytest.raises(StoreError, match="model version v2"):
        store.versions.kept_versions()
