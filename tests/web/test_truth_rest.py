"""True accuracy over REST with a real store and real windows on disk: questions, answers, estimate, label files."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from appliance_double import DictAppliance
from truth_kit import Street, street

from edge.appliance.answers.read import plain, read
from edge.appliance.answers.truth import CocoFile
from edge.appliance.truth import Truth
from edge.core.accuracy import Counts, count
from edge.core.clock import SystemClock
from edge.core.truth import Finding, FrameKey, Question
from edge.store.store import Store
from web.app import create_app


@pytest.fixture
def world(upgraded_data: Path) -> Street:
    return street(upgraded_data, window=3)


@pytest.fixture
def store(upgraded_data: Path) -> Iterator[Store]:
    with Store(None, upgraded_data) as opened:
        yield opened


@pytest.fixture
def findings() -> list[Finding]:
    return []


@pytest.fixture
def truth(tmp_path: Path, store: Store, world: Street, findings: list[Finding]) -> Truth:
    return Truth(store.answers, tmp_path / "data", SystemClock(), DictAppliance().cameras.one, findings.append)


@pytest.fixture
async def client(tmp_path: Path, truth: Truth) -> AsyncIterator[httpx.AsyncClient]:
    appliance = DictAppliance()
    appliance.truth = truth
    transport = httpx.ASGITransport(create_app(appliance, static=tmp_path))
    async with httpx.AsyncClient(transport=transport, base_url="http://box/api/v1/cameras") as client:
        yield client


def _answers(world: Street, questions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    out = []
    for q in questions:
        verdict, missed = world.verdict(Question(FrameKey(q["window"], q["frame"]), q["kind"], q["candidate"]))
        row = {k: q[k] for k in ("window", "frame", "kind", "candidate")} | {"verdict": verdict}
        out.append(row if missed is None else row | {"missed": missed})
    return out


async def _sit(client: httpx.AsyncClient, world: Street, rounds: int) -> dict[str, Any]:
    body: dict[str, Any] = {}
    for _ in range(rounds):
        asked = (await client.get("/north/truth/questions")).json()
        answer = await client.post("/north/truth/answers", json={"answers": _answers(world, asked["questions"])})
        assert answer.status_code == 200, answer.text
        body = answer.json()
    return body


async def test_answers_become_an_estimate_that_is_reported_again(
    client: httpx.AsyncClient, world: Street, truth: Truth
) -> None:
    before = (await client.get("/north/truth")).json()
    assert (before["estimate"], before["asking"], before["answers_needed"]) == (None, 3, 4)
    body = await _sit(client, world, 3)
    estimate = body["estimate"]
    assert (body["window"], body["answers"], estimate["answers"]) == (3, 30, 30)
    for who in ("student", "teacher"):
        assert 0 <= estimate[who]["low"] < estimate[who]["value"] < estimate[who]["high"] <= 1
        assert estimate[who]["more_to_halve"] > 0
    assert (await client.get("/north/truth")).json() == body
    for _ in range(2):
        assert truth.latest(["north", "south"]) == {"north": {"window": 3} | estimate}
    again = (await client.get("/north/truth/questions", params={"limit": 100})).json()["questions"]
    assert len(again) == min(100, estimate["questions"] - 30), "no question is asked twice"


async def test_a_question_leads_to_its_picture_and_copies_outlive_the_recording(
    client: httpx.AsyncClient, world: Street, tmp_path: Path
) -> None:
    q = (await client.get("/north/truth/questions", params={"limit": 1})).json()["questions"][0]
    assert 0 < q["probability"] <= 1
    assert (q["width"], q["height"]) == (320, 180)
    path = f"/north/truth/pictures/{q['window']}/{q['frame']}.jpg"
    assert (await client.get(path)).headers["content-type"] == "image/jpeg"
    await client.post("/north/truth/answers", json={"answers": _answers(world, [q])})
    for picture in (tmp_path / "data" / "pictures").rglob("*.jpg"):
        picture.unlink()
    assert (await client.get(path)).status_code == 200
    assert (await client.get(f"/north/truth/pictures/3/{q['frame'] % 12 + 1}.jpg")).status_code == 404


async def test_second_opinions_that_contradict_are_counted_and_reported(
    client: httpx.AsyncClient, world: Street, store: Store, findings: list[Finding]
) -> None:
    await _sit(client, world, 1)
    other = next(a.answer for a in store.answers.page("north") if a.answer.question.kind == "box")
    body = {"window": 3, "frame": other.question.key.frame, "kind": "box", "candidate": other.question.candidate}
    first = store.answers.page("north")
    turned = replace(other, by="bob", verdict="no" if other.verdict != "no" else "yes")
    record = next(r for r in first if r.answer == other)
    store.answers.add_answers([replace(record, answer=turned, id=0)])
    truth = (await client.get("/north/truth")).json()
    assert (truth["estimate"]["contradicted"], truth["estimate"]["unsure"]) == (1, 1)
    assert [f["kind"] for f in truth["findings"]] == ["people_contradict"]
    assert [f.kind for f in findings] == ["people_contradict"], "reported once"
    assert len(store.answers.page("north")) == 11, "both answers stay"
    second = (await client.get("/north/truth/questions", params={"second": True})).json()["questions"]
    assert body["frame"] not in [q["frame"] for q in second if q["candidate"] == body["candidate"]]


@pytest.mark.parametrize(
    ("row", "words"),
    [({"kind": "maybe"}, "kind"), ({"verdict": "perhaps"}, "verdict"), ({"candidate": 99}, "candidate"),
     ({"frame": 77}, "no labelled frame 77"), ({"window": 9}, "no labelled window 9"), ({"frame": "1"}, "frame"),
     ({"missed": 2}, "missed"), ({"colour": "red"}, "colour"), ({"candidate": None}, "candidate"),
     ({"kind": "missed", "candidate": None, "verdict": "counted"}, "missed"),
     ({"kind": "missed", "candidate": None, "verdict": "counted", "missed": 1,
       "marked": [{"box": [0.5, 0.5, 0.4, 0.6], "class": "car"}]}, "marked"),
     ({"kind": "missed", "candidate": None, "verdict": "counted", "missed": 0,
       "marked": [{"box": [0.5, 0.5, 0.6, 0.6], "class": "car"}]}, "missed"),
     ({"kind": "missed", "candidate": None, "verdict": "counted", "missed": 1,
       "marked": [{"box": [0.5, 0.5, 0.6, 0.6], "class": "tram"}]}, "one of car, bus")],
)  # fmt: skip
async def test_a_wrong_answer_is_named_and_nothing_is_kept(
    client: httpx.AsyncClient, store: Store, row: dict[str, Any], words: str
) -> None:
    good = {"window": 3, "frame": 1, "kind": "box", "candidate": 0, "verdict": "yes"}
    answer = await client.post("/north/truth/answers", json={"answers": [good, good | row]})
    assert answer.status_code in (404, 422)
    assert words in answer.json()["error"]["message"]
    assert "answers[1]" in answer.json()["error"]["message"] or answer.status_code == 404
    assert store.answers.page() == ()


async def test_labels_go_out_and_come_back(client: httpx.AsyncClient, world: Street, store: Store) -> None:
    body = await _sit(client, world, 2)
    coco = (await client.get("/north/truth/export", params={"format": "coco"})).json()
    assert plain(CocoFile, read(CocoFile, coco)) == coco
    assert len(coco["magpie"]["answers"]) == 20
    again = (await client.post("/north/truth/import", json={"format": "coco", "document": coco})).json()
    assert again == {"pictures": len(coco["images"]), "answers": 0, "incomplete": 0, "unknown": 0, "there": 20}
    packed = await client.get("/north/truth/export", params={"format": "yolo"})
    assert packed.headers["content-disposition"].endswith('north-labels.zip"')
    with zipfile.ZipFile(io.BytesIO(packed.content)) as archive:
        files = {name: archive.read(name).decode() for name in archive.namelist()}
    assert len(files) == len(coco["images"]) + 2
    assert body["estimate"]["answers"] == 20


async def test_an_answer_that_two_people_bring_in_is_its_authors_once(
    client: httpx.AsyncClient, world: Street, store: Store, truth: Truth, upgraded_data: Path
) -> None:
    await _sit(client, world, 1)
    coco = json.loads(truth.export("north", "coco").content)
    for row in coco["magpie"]["answers"]:
        row["by"] = "ann"
    body = {"format": "coco", "document": coco}
    assert truth.import_labels("north", body, "bob").answers == 10
    again = json.loads(truth.export("north", "coco").content)["magpie"]["answers"]
    assert {(row["by"], row["imported_by"]) for row in again} == {("operator", None), ("ann", "bob")}
    coco["magpie"]["answers"] = again
    done = truth.import_labels("north", body, "carol")
    assert (done.answers, done.there) == (0, 20)
    people = {(r.answer.by, r.answer.imported_by) for r in store.answers.page("north")}
    assert people == {("operator", None), ("ann", "bob")}


async def test_both_people_of_an_older_label_file_are_read(
    client: httpx.AsyncClient, world: Street, store: Store, truth: Truth
) -> None:
    """Before schema 0016 `by` of an imported answer held its author and its importer."""
    await _sit(client, world, 1)
    coco = json.loads(truth.export("north", "coco").content)
    for row in coco["magpie"]["answers"]:
        del row["imported_by"]
        row["by"] = "ann via bob via carol"
    body = {"format": "coco", "document": coco}
    assert truth.import_labels("north", body, "dora").answers == 10
    assert truth.import_labels("north", body, "carol").there == 10
    people = {(r.answer.by, r.answer.imported_by) for r in store.answers.page("north")}
    assert people == {("operator", None), ("ann", "dora")}


async def test_complete_labels_of_others_answer_every_question(
    client: httpx.AsyncClient, world: Street, store: Store
) -> None:
    files = {"classes.txt": "car\nbus\n"}
    for key, truth in world.truth.items():
        rows = []
        for (x1, y1, x2, y2), c in zip(truth.boxes, truth.classes, strict=True):
            rows.append(f"{c} {(x1 + x2) / 2:.6f} {(y1 + y2) / 2:.6f} {x2 - x1:.6f} {y2 - y1:.6f}")
        files[f"w{key.window}-f{key.frame}.txt"] = "\n".join(rows)
    files["w3-f900.txt"] = ""
    left = (await client.post("/north/truth/import", json={"format": "yolo", "files": files})).json()
    assert (left["answers"], left["incomplete"]) == (0, 13), "labels that may leave objects out answer nothing"
    body = {"format": "yolo", "files": files, "complete": True}
    done = (await client.post("/north/truth/import", json=body)).json()
    assert (done["pictures"], done["unknown"]) == (13, 1)
    estimate = (await client.get("/north/truth")).json()["estimate"]
    assert estimate["answers"] == estimate["questions"] == done["answers"]
    assert estimate["student"]["low"] == estimate["student"]["high"], "nothing is left to doubt"
    true = Counts()
    for frame in world.window.all_sampled:
        true += count(frame.frame.answer, world.truth[FrameKey(3, frame.frame.number)], 0.5)
    assert estimate["student"]["value"] == pytest.approx(true.f1, abs=1e-3)
    assert (await client.get("/north/truth/questions")).json()["questions"] == []


_IMAGE = {"id": 1, "file_name": "w3-f1.jpg", "width": 320, "height": 180}


@pytest.mark.parametrize(
    ("body", "words"),
    [({}, "format"), ({"format": "voc"}, "format"), ({"format": "coco"}, "document"),
     ({"format": "coco", "document": {"images": []}}, "document.categories"),
     ({"format": "coco", "document": {"categories": [], "images": [], "annotations": []}}, "pictures"),
     ({"format": "coco", "document": {"categories": [], "images": [_IMAGE | {"file_name": "x.jpg"}],
                                      "annotations": []}}, "document.images[0].file_name"),
     ({"format": "coco", "document": {"categories": [{"id": 1, "name": "car"}], "images": [_IMAGE],
       "annotations": [{"image_id": 1, "category_id": 1, "bbox": [300, 0, 90, 20]}]}}, "annotations[0].bbox"),
     ({"format": "coco", "document": {"categories": [], "images": [_IMAGE],
       "annotations": [{"image_id": 2, "category_id": 1, "bbox": [1, 1, 9, 9]}]}}, "annotations[0].image_id"),
     ({"format": "coco", "document": {"magpie": {"camera": "north", "answers": [{"window": -1}]}}}, "answers[0]"),
     ({"format": "yolo", "files": {"w3-f1.txt": "0 .5 .5 .1 .1"}}, "classes.txt"),
     ({"format": "yolo", "files": {"classes.txt": "car", "w3-f1.txt": "0 .5 .5 .1"}}, "w3-f1.txt line 1"),
     ({"format": "yolo", "files": {"classes.txt": "car", "w3-f1.txt": "7 .5 .5 .1 .1"}}, "a class from 0 to 0"),
     ({"format": "yolo", "files": {"classes.txt": "car", "w3-f1.txt": "nan .5 .5 .1 .1"}}, "5 numbers"),
     ({"format": "yolo", "files": {"classes.txt": "tram", "w3-f1.txt": "0 .5 .5 .1 .1"}, "complete": True}, "tram")],
)  # fmt: skip
async def test_a_broken_file_is_refused_by_field(
    client: httpx.AsyncClient, store: Store, body: dict[str, Any], words: str
) -> None:
    answer = await client.post("/north/truth/import", json=body)
    assert answer.status_code == 422, answer.text
    assert words in json.dumps(answer.json()["error"]["message"])
    assert store.answers.page() == ()


async def test_a_camera_without_pictures_or_of_another_kind_says_so(client: httpx.AsyncClient, tmp_path: Path) -> None:
    assert (await client.get("/south/truth/questions")).json()["questions"] == []
    assert (await client.get("/south/truth")).json()["asking"] is None
    assert (await client.get("/west/truth")).status_code == 404
    assert (await client.get("/west/truth/export")).status_code == 404
    manifest = tmp_path / "data" / "windows" / "north" / "3.json"
    manifest.write_text(manifest.read_text().replace('"task": "detection"', '"task": "classification"'))
    assert (await client.get("/north/truth")).json()["detection"] is False
    refused = await client.get("/north/truth/questions")
    assert (refused.status_code, "classifies" in refused.json()["error"]["message"]) == (409, True)
