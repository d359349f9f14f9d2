"""The main job end to end: cameras in, answers, labels, retraining, promotion; settings at run time; restart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from appliance_kit import UNTAUGHT
from running_kit import running, until

from edge.appliance.answers.read import plain
from edge.appliance.answers.windows import WindowStory
from edge.appliance.appliance import Appliance
from edge.core.errors import Conflict, InvalidValue, InvalidValues, LabelError, MagpieError, NotFound, WeightsError
from edge.core.labels import Accuracy
from edge.core.models import ModelVersion
from edge.runtime import messages as m
from edge.settings import SiteSettings
from edge.simulation.replay import replayed
from edge.store.retention import RetentionLimits

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(480)]


def to_be_retrained(site: Callable[..., SiteSettings]) -> SiteSettings:
    """One camera is sure to be retrained; the other begins with a student that has learnt."""
    made = site(
        14.0, task="mixed", space={"epochs": [5], "layers": ["all"], "data_fractions": [1.0], "batch_sizes": [4]}
    )
    first, *others = made.cameras
    first = first.model_copy(update={"student": first.student.model_copy(update=UNTAUGHT)})
    return made.model_copy(update={"cameras": (first, *others)})


async def test_windows_are_measured_planned_and_retrained(site: Callable[..., SiteSettings]) -> None:
    async with running(to_be_retrained(site)) as appliance:
        runtime = appliance.runtime
        both = {"overpass", "junction"}
        await until(lambda: both <= runtime.boundary.measured.get(2, set()), "two windows are over and measured", 110)

        def learned() -> list[int]:
            """Windows after the first that are over and measured, and in which something was retrained. In the second
            profiles may come late, or promise nothing; a window that is measured late has no accuracy."""
            appliance.services.events.buffer.flush()
            over = [n for n, cameras in runtime.boundary.measured.items() if n >= 2 and both <= cameras]
            found = [appliance.services.windows.one(n) for n in over]
            return [w.window.id for w in found if w.jobs and all(c.realised for c in w.window.cameras)]

        await until(learned, "something was retrained, and what was measured is in the database", 150)
        number = learned()[0]
        detail = appliance.services.windows.one(number)
        rows = {c.camera: c for c in detail.window.cameras}
        first = {c.camera: c for c in appliance.services.windows.one(1).window.cameras}
        for camera in both:
            assert 6 <= first[camera].frames_labelled <= 12, "a bounded sample was labelled"
            assert 0.0 <= rows[camera].realised.value <= 1.0
            # The frozen student is the model in force in window 1: the same answers, or nearly (pictures are JPEG).
            assert first[camera].frozen.value == pytest.approx(first[camera].realised.value, abs=0.15)
        # What the window takes on disk is reported to the store, so that retention finds it.
        drop = appliance.housekeeping.drop_pictures
        report = await asyncio.to_thread(appliance.store.retention.retain, RetentionLimits(max_bytes=0), drop)
        assert report.picture_sets >= 2
        assert report.bytes_freed > 10_000
        folder = Path(appliance.site.data_dir) / "windows" / "junction"
        assert not (folder / "1.json").exists(), "a manifest goes with its window's pictures"
        assert detail.profiles, "configurations were profiled"
        assert any(s["retrain_configs"] for p in detail.plans for s in p.problem["streams"])
        for job in detail.jobs:
            versions = {v.id: v for v in appliance.services.models.versions(job.camera)}
            if job.state == "completed":
                made = versions[job.model_version]
                assert made.parent in versions
                assert made.state in ("promoted", "retired", "rejected", "rolled_back")
                assert {"held_out", "parent_held_out"} <= made.scores.keys()
        asked = [u for u in detail.usage if u.role == "inference"]
        assert asked
        assert all(u.granted == pytest.approx(u.asked, abs=0.05) for u in asked)
        story = await appliance.services.windows.explained(number)
        assert story.timeline[0].start_s == 0.0
        assert story.timeline[-1].end_s == detail.window.length_s
        predicted = {c.camera for c in story.cameras if c.options and c.predicted is not None}
        assert predicted >= {job.camera for job in detail.jobs}, "a camera whose profiles came late has no prediction"
        assert any(job.outcome in ("promoted", "refused") for c in story.cameras for job in c.jobs)
        plans = replayed(plain(WindowStory, detail))
        assert plans
        assert all(p.again is not None and not p.differs for p in plans), "what is replayed is what was followed"
        other = await appliance.services.windows.what_if(number, "uniform")
        assert other.comparison.asked.objective == pytest.approx(other.objective)
        assert other.comparison.made.objective == pytest.approx(other.original_objective)


async def test_retraining_windows_change_at_run_time_and_survive_a_restart(site: Callable[..., SiteSettings]) -> None:
    settings = site(window_s=10.0)
    async with running(settings) as appliance:
        changed = await appliance.services.retraining.change(
            {"window_s": 22.0, "a_min": 0.05, "policy": "exact"}, "test"
        )
        assert changed.current.window_s == 10.0, "not before the next boundary"
        assert changed.next.window_s == 22.0
        with pytest.raises(InvalidValues, match="window_s"):
            await appliance.services.retraining.change({"window_s": -1}, "test")
        with pytest.raises(InvalidValues, match="windw_s"):
            await appliance.services.retraining.change({"windw_s": 20}, "test")
        await until(lambda: appliance.services.retraining.settings().current.window_s == 22.0, "the boundary comes")
        promoted = {c: appliance.services.cameras.one(c).state.model.version for c in ("overpass", "junction")}
        window = appliance.services.state.overview().window.number
    async with running(settings) as appliance:
        assert appliance.services.retraining.settings().current.window_s == 22.0
        assert appliance.services.retraining.settings().current.policy == "exact"
        assert {c: appliance.services.cameras.one(c).state.model.version for c in promoted} == promoted
        assert appliance.services.state.overview().window.number >= window


async def test_cameras_come_and_go_and_bad_ones_are_refused(site: Callable[..., SiteSettings]) -> None:
    async with running(site(window_s=60.0)) as appliance:
        good = appliance.services.cameras.one("junction").settings.model_dump(mode="json")
        with pytest.raises(LabelError, match="zebra"):
            await appliance.services.cameras.add(good | {"id": "third", "classes": ["zebra"]}, "test")
        with pytest.raises(InvalidValues, match="stall_timeout_s"):
            await appliance.services.cameras.add(good | {"id": "third", "stall_timeout_s": 0}, "test")
        student = good["student"] | {"weights": "/missing.safetensors"}
        with pytest.raises(WeightsError, match=r"missing\.safetensors"):
            await appliance.services.cameras.add(good | {"id": "third", "student": student}, "test")
        before = appliance.services.cameras.one("junction")
        with pytest.raises(WeightsError, match=r"missing\.safetensors"):
            await appliance.services.cameras.change("junction", {"student": student}, "test")
        assert appliance.services.cameras.one("junction").settings == before.settings, "it goes on as before"
        kept = {c.id: c.settings for c in appliance.store.settings.cameras()}
        assert "missing" not in str(kept), "also after a new start"
        for reference in ("file:/etc/passwd", "env:HOME"):
            with pytest.raises(InvalidValue, match="secret_references"):
                await appliance.services.cameras.add(good | {"id": "third", "password_from": reference}, "test")
            with pytest.raises(InvalidValue, match="secret_references"):
                await appliance.services.cameras.test(good | {"id": "third", "password_from": reference})
            with pytest.raises(InvalidValue, match="secret_references"):
                await appliance.services.cameras.change("junction", {"password_from": reference}, "test")
        for url in ("/etc/passwd", "file:///srv/yard.mp4"):
            with pytest.raises(InvalidValue, match="media_folders"):
                await appliance.services.cameras.add(good | {"id": "third", "url": url}, "test")
            with pytest.raises(InvalidValue, match="media_folders"):
                await appliance.services.cameras.test(good | {"id": "third", "url": url})
            with pytest.raises(InvalidValue, match="media_folders"):
                await appliance.services.cameras.change("junction", {"url": url}, "test")
        assert len(appliance.services.cameras.all()) == 2, "a refused camera leaves nothing behind"
        await appliance.services.cameras.add(good | {"id": "third"}, "test")
        await until(
            lambda: appliance.services.cameras.one("third").state.inference.answers > 0, "the new camera answers"
        )
        patches = [{"name": "Third"}, {"enabled": False}, {"retraining": {"every_kth_window": 2}}]
        await asyncio.gather(*(appliance.services.cameras.change("third", patch, "test") for patch in patches))
        settings = appliance.services.cameras.one("third").settings
        assert (settings.name, settings.retraining.every_kth_window) == ("Third", 2), "no change is lost"
        assert appliance.services.cameras.one("third").state.state == "stopped"
        await appliance.services.cameras.remove("third", "test")
        with pytest.raises(NotFound):
            appliance.services.cameras.one("third")
        await until(
            lambda: appliance.services.cameras.one("junction").state.inference.answers_per_s > 0.5, "the others go on"
        )


def in_force(appliance: Appliance, camera: str) -> str:
    return str(appliance.services.cameras.one(camera).state.model.version)


async def put_a_copy_in_force(appliance: Appliance, camera: str, name: str, content: bytes | None = None) -> str:
    """Another version of the student in force, with other `content` if given, switched to by the camera's worker as the
    gate has it switched."""
    runtime, store = appliance.runtime, appliance.store
    now = runtime.camera(camera).version
    content = content or store.blobs.verify(now.blob).read_bytes()
    made = ModelVersion(f"{camera}-{name}", camera, "", now.spec, now.created_utc_s + 1.0, parent=now.id, window=1)
    added = await asyncio.to_thread(store.add_model, made, content)
    await runtime.students.versions.put_in_force(runtime.camera(camera), added, "gate", "a copy", {"held_out": 0.5})
    return added.id


async def test_an_operator_rolls_back_pins_and_looks(site: Callable[..., SiteSettings]) -> None:
    async with running(site(window_s=60.0)) as appliance:
        jpeg = await appliance.services.live.snapshot("junction", 160)
        assert jpeg.startswith(b"\xff\xd8")
        seen = []
        async for picture in appliance.services.live.watch((), 5.0):
            seen.append(picture)
            if len({p.camera for p in seen}) == 2:
                break
        assert all(len(p.header.boxes) == len(p.header.labels) for p in seen)
        slow = appliance.services.live.watch(("junction",), 20.0)
        await anext(slow)
        came = appliance.services.live.pictures.encoded("junction")
        await until(
            lambda: appliance.services.live.pictures.encoded("junction") >= came + 4,
            "pictures come to a slow viewer",
        )
        await anext(slow)
        assert appliance.services.state.overview().losses.live_pictures > 0, "what a slow viewer lost is counted"
        await slow.aclose()  # type: ignore[attr-defined]
        first = appliance.services.cameras.one("junction").state.model.version
        assert [v.id for v in appliance.services.models.lineage(first)] == [first]
        pinned = await appliance.services.models.pin(first, True, "test")
        assert pinned.pinned
        assert appliance.runtime.controller.state.cameras["junction"].retraining is False
        await appliance.services.models.pin(first, False, "test")
        assert appliance.runtime.controller.state.cameras["junction"].retraining is True
        with pytest.raises(MagpieError):
            await put_a_copy_in_force(appliance, "junction", "broken", b"no model")
        assert in_force(appliance, "junction") == first, "one that cannot be switched to changes nothing"
        worse = await put_a_copy_in_force(appliance, "junction", "worse")
        await until(lambda: in_force(appliance, "junction") == worse, "the worse version is in force")
        live, parent = Accuracy(0.1, 100, 300), Accuracy(0.9, 100, 300)
        appliance.runtime.boundary.evaluated(m.Evaluated("junction", 1, worse, None, None, live, parent))
        await until(lambda: in_force(appliance, "junction") == first, "it is rolled back by itself")
        await until(lambda: not appliance.runtime.camera("junction").judging.locked(), "the worker has switched")
        second = await put_a_copy_in_force(appliance, "junction", "second")
        await until(lambda: in_force(appliance, "junction") == second, "the second version is in force")
        back = await appliance.services.models.roll_back("junction", None, "test", "it misses buses")
        assert back.id == in_force(appliance, "junction") == first
        states = {v.id: v.state for v in appliance.services.models.versions("junction")}
        assert states == {
            first: "promoted",
            second: "rolled_back",
            worse: "rolled_back",
            "junction-broken": "rolled_back",
        }
        with pytest.raises(Conflict, match="no earlier"):
            await appliance.services.models.roll_back("junction", None, "test", "once more")
        answers = appliance.services.cameras.one("junction").state.inference.answers
        await until(
            lambda: appliance.services.cameras.one("junction").state.inference.answers > answers, "it answers on"
        )
        assert appliance.services.state.health().ready
