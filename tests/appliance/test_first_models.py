"""A camera's first model: what cannot be made changes nothing, and the download stays the root of what was given."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from detectors.tiny_detectors import describe, tiny_grid

from edge.appliance.cameras import Cameras
from edge.appliance.first_models import FirstModels, ModelChoice
from edge.core.clock import ManualClock
from edge.core.errors import Conflict, LicenceRefused, WeightsError
from edge.core.models import ModelVersion
from edge.runtime.camera import score_document
from edge.settings import CameraSettings, SiteSettings, parse
from edge.store.store import Store


@pytest.fixture
def store(upgraded_data: Path) -> Iterator[Store]:
    with Store(None, upgraded_data, clock=ManualClock()) as store:
        yield store


@pytest.fixture
def model(tmp_path: Path) -> Path:
    content, spec = tiny_grid()
    return describe(tmp_path, spec, content)


@pytest.fixture
def models(store: Store, upgraded_data: Path) -> FirstModels:
    site = parse(SiteSettings, {"data_dir": str(upgraded_data)})
    return FirstModels(site, store, ManualClock(), 2**32)


def camera(model: Path, *classes: str, weights: Path | str = "") -> CameraSettings:
    student = {"model": str(model), "weights": str(weights)}
    return parse(
        CameraSettings,
        {"id": "gate", "url": "rtsp://192.0.2.1/a", "classes": classes or ("car", "person"), "student": student},
    )


async def test_the_download_is_the_root_of_weights_that_were_given(
    models: FirstModels, store: Store, model: Path, tmp_path: Path
) -> None:
    first = await models.put_in_force("gate", await models.choose(camera(model)))
    again = await models.choose(camera(model))
    assert (again.stays, again.made) == (first, ())
    given = tmp_path / "given.safetensors"
    given.write_bytes(store.blobs.verify(first.blob).read_bytes())
    with_weights = camera(model, weights=given)
    assert (await models.choose(with_weights)).stays == first, "they count where the camera is begun with them"
    version = await models.put_in_force("gate", await models.choose(with_weights, anew=True))
    lineage = store.versions.lineage(version.id)
    assert [v.blob for v in lineage][1:] == [first.blob], "the download, once more"
    assert lineage[0].reason == "weights of given.safetensors"
    assert lineage[1].id != first.id, "all that was learned before is of no use to it"
    assert store.versions.promoted("gate") == store.versions.version(version.id)


async def test_other_classes_forget_labels_that_are_indices_into_the_old_ones(
    models: FirstModels, upgraded_data: Path, model: Path
) -> None:
    await models.put_in_force("gate", await models.choose(camera(model)))
    kept = [upgraded_data / part / "gate" for part in ("pictures", "exemplars", "kept-out")]
    for folder in kept:
        folder.mkdir(parents=True)
    other = await models.choose(camera(model, "person", "car"))
    assert all(folder.is_dir() for folder in kept), "nothing is changed before it is in force"
    await models.put_in_force("gate", other)
    assert not any(folder.exists() for folder in kept)


async def test_a_refused_licence_and_a_missing_file_are_told_wherever_the_camera_came_from(
    models: FirstModels, model: Path
) -> None:
    plain = model.read_text()
    model.write_text(plain + "licence: AGPL-3.0-only\n")
    with pytest.raises(LicenceRefused, match=r"AGPL-3\.0-only"):
        await models.choose(camera(model))
    model.write_text(plain)
    for file in model.parent.glob("*.onnx"):
        file.unlink()
    with pytest.raises(WeightsError, match="put the right file there yourself"):
        await models.choose(camera(model))


class _Box(Cameras):
    """Cameras whose student cannot be had; `last` is the version that is in force."""

    def __init__(self, folder: Path, last: ModelChoice | None, known: bool, **site_fields: Any) -> None:
        self.begun: list[ModelChoice] = []
        self.complaints: list[tuple[str, str, str]] = []
        control: Any = SimpleNamespace(secrets_file=folder)
        complaints = SimpleNamespace(add=lambda *said: self.complaints.append(said))
        runtime: Any = SimpleNamespace(cameras={}, complaints=complaints)
        store: Any = SimpleNamespace(versions=SimpleNamespace(promoted=lambda camera: "a version" if known else None))
        nothing: Any = None
        site = parse(SiteSettings, {"data_dir": str(folder)} | site_fields)
        super().__init__(site, store, ManualClock(), runtime, control, *[nothing] * 6)

        async def choose(settings: CameraSettings, lost: bool = False, anew: bool = False) -> ModelChoice:
            raise WeightsError("the file is gone")

        async def kept(settings: CameraSettings) -> ModelChoice | None:
            return last

        models: Any = SimpleNamespace(choose=choose, kept=kept)
        self._models = models

    async def _take_in(self, settings: CameraSettings, choice: ModelChoice) -> None:
        self.begun.append(choice)


async def test_a_pinned_model_is_not_replaced_and_nothing_is_forgotten(
    models: FirstModels, store: Store, upgraded_data: Path, model: Path
) -> None:
    first = await models.put_in_force("gate", await models.choose(camera(model)))
    store.versions.set_pinned(first.id, True, "ann")
    kept = upgraded_data / "exemplars" / "gate"
    kept.mkdir(parents=True)
    with pytest.raises(Conflict, match="is pinned"):
        await models.choose(camera(model, "person", "car"))
    assert kept.is_dir()


async def test_a_version_that_came_into_force_meanwhile_stays(models: FirstModels, store: Store, model: Path) -> None:
    first = await models.put_in_force("gate", await models.choose(camera(model)))
    choice = await models.choose(camera(model))
    content = store.blobs.verify(first.blob).read_bytes()
    newer = store.add_model(ModelVersion("gate-2", "gate", "", first.spec, 2e9, parent=first.id, window=1), content)
    store.versions.promote(newer.id, "gate", "better")
    assert (await models.put_in_force("gate", choice)).id == "gate-2"


async def test_a_camera_whose_student_is_gone_goes_on_with_its_last_and_keeps_no_other_from_starting(
    tmp_path: Path, model: Path
) -> None:
    last = ModelChoice(None)
    goes_on = _Box(tmp_path, last, True)
    await goes_on.begin(camera(model))
    assert goes_on.begun == [last]
    assert goes_on.complaints == [("student_unusable", "the file is gone; its last model goes on", "gate")]
    left_out = _Box(tmp_path, None, True)
    await left_out.begin(camera(model))
    assert left_out.begun == []
    assert "left out" in left_out.complaints[0][1]
    with pytest.raises(WeightsError):
        await _Box(tmp_path, None, False).begin(camera(model))
    with pytest.raises(WeightsError):  # another box may answer it, and this one would have removed it
        await _Box(tmp_path, None, True, fleet={"name": "b1", "token": "env:X"}).begin(camera(model))


class UnchangedCameras(Cameras):
    """Cameras whose version in force stays."""

    def __init__(self, version: Any, *parts: Any) -> None:
        super().__init__(*parts)

        async def choose(settings: CameraSettings, lost: bool = False, anew: bool = False) -> ModelChoice:
            return ModelChoice(version)

        async def put_in_force(camera_id: str, choice: ModelChoice) -> Any:
            return version

        models: Any = SimpleNamespace(choose=choose, put_in_force=put_in_force)
        self._models = models


@pytest.mark.parametrize(
    ("kept", "taken"),
    [
        (None, None),
        ({"version": "v1", "score": 0.35}, 0.35),
        ({"version": "v0", "score": 0.35}, None),
        ({"version": "v1", "score": "high"}, None),
        ({"version": "v1", "score": 7.0}, None),
    ],
)
async def test_the_least_score_of_the_version_in_force_is_taken_up_again(
    tmp_path: Path, model: Path, kept: dict[str, Any] | None, taken: float | None
) -> None:
    added: list[Any] = []
    cameras = {"gate": SimpleNamespace()}
    runtime: Any = SimpleNamespace(
        cameras=cameras,
        camera_workers=SimpleNamespace(add=lambda *given: added.append(given)),
        students=SimpleNamespace(siblings=SimpleNamespace(known=lambda *given: None)),
    )
    version: Any = SimpleNamespace(id="v1")
    documents = {score_document("gate"): kept}
    store: Any = SimpleNamespace(
        versions=SimpleNamespace(lineage=lambda name: (version,)),
        settings=SimpleNamespace(get_settings=documents.get),
    )
    control: Any = SimpleNamespace(secrets_file=tmp_path)
    nothing: Any = None
    site = parse(SiteSettings, {"data_dir": str(tmp_path)})
    await UnchangedCameras(version, site, store, ManualClock(), runtime, control, *[nothing] * 6).begin(camera(model))
    assert added[0][-1] == taken
