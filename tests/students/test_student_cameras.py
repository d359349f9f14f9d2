"""Any folder of cameras: names, order of time, people's labels; and the bars that a run has to reach."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import numpy as np
import pytest

from benchmarks.bench_students import ROWS, Run, Score, _score, bars, main, table
from benchmarks.student_cameras import (
    FEWEST,
    BenchCamera,
    UnusableCamera,
    cameras_in,
    in_time,
    read_camera,
)
from edge.core.labels import LabelledFrame, SampledFrame
from edge.core.vision import Detections
from edge.detectors.pictures import jpeg_bytes
from golden.ensemble import Teacher

ONE = Detections.build(np.array([[0.1, 0.1, 0.4, 0.4]], np.float32), np.ones(1), np.zeros(1))


class OneCar:
    """A teacher that finds one car in each picture."""

    name, classes = "one", ("car",)

    def label(self, picture: object) -> Detections:
        return ONE


def stills(folder: Path, count: int, name: str = "f_{}.jpg") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        content = jpeg_bytes(np.full((48, 64, 3), number, np.uint8))
        assert content is not None
        (folder / name.format(number)).write_bytes(content)
    return folder


def read(path: Path, tmp_path: Path) -> BenchCamera:
    teacher = cast(Teacher, OneCar())
    return read_camera(path.name, path, teacher, 0.4, (3,), tmp_path / "scratch", tmp_path / "cache")


def test_cameras_have_names_of_their_own(tmp_path: Path) -> None:
    stills(tmp_path / "cam.1", 1)
    stills(tmp_path / "cam.2", 1)
    stills(tmp_path / "8701", 1)
    (tmp_path / "empty").mkdir()
    for video in ("8701.mp4", "yard.mp4", "yard.avi", "road.webm", "notes.txt"):
        (tmp_path / video).write_bytes(b"x")
    found = cameras_in(tmp_path)
    assert list(found) == ["8701", "cam.1", "cam.2", "8701.mp4", "road", "yard.avi", "yard.mp4"]
    assert found["8701"].is_dir()
    assert not found["8701.mp4"].is_dir()
    with pytest.raises(UnusableCamera, match="No such file"):
        cameras_in(tmp_path / "nowhere")


def test_numbers_in_names_are_in_the_order_of_their_values(tmp_path: Path) -> None:
    folder = stills(tmp_path / "cam", 12)
    assert [p.name for p in in_time(folder)] == [f"f_{n}.jpg" for n in range(12)]


def test_pictures_without_a_file_of_people_are_left_out_of_p_alone(tmp_path: Path) -> None:
    folder = stills(tmp_path / "cam", FEWEST)
    (folder / "f_0.txt").write_text("0 0.25 0.25 0.3 0.3\n\n3 0.8 0.8 0.1 0.1\n")
    (folder / "f_1.txt").write_text("")
    camera = read(folder, tmp_path)
    assert [None if p is None else len(p) for p in camera.people[:3]] == [1, 0, None]
    all_seen = [ONE] * FEWEST
    score = _score(all_seen, 0.5, camera, range(FEWEST))
    assert score.t == 100.0
    assert score.p == pytest.approx(100 * 2 / 3), "one right, one false answer"
    assert _score(all_seen[2:4], 0.5, camera, (2, 3)).p is None
    (folder / "f_2.txt").write_text("0 0.1 0.1\n")
    with pytest.raises(UnusableCamera, match=r"f_2\.txt, line 1"):
        read(folder, tmp_path)


def test_a_camera_that_cannot_be_used_says_why(tmp_path: Path) -> None:
    with pytest.raises(UnusableCamera, match=f"3 pictures: at least {FEWEST}"):
        read(stills(tmp_path / "few", 3), tmp_path)
    broken = stills(tmp_path / "broken", FEWEST)
    (broken / "f_5.jpg").write_bytes(b"no picture")
    with pytest.raises(UnusableCamera, match="not a readable picture"):
        read(broken, tmp_path)
    (tmp_path / "bad.mp4").write_bytes(b"no video")
    with pytest.raises(UnusableCamera, match="not a readable video"):
        read(tmp_path / "bad.mp4", tmp_path)


def run(camera: str, gated: float, download: float, cost: float = 0.9) -> Run:
    scores = {row: [Score(download, None)] * 3 for row in ROWS} | {"gated": [Score(gated, None)] * 3}
    scores["ungated"] = scores["gated"]
    return Run(camera, 0, scores, answer_ms={"shipped": 10.0, "student": 10.0 * cost, "teacher": 300.0})


def test_every_camera_is_judged_and_one_that_cannot_be_read_is_a_miss() -> None:
    good = [run("arterial_a", 88.0, 73.0), run("campus", 97.0, 96.5), run("x", 70.0, 65.0)]
    assert all(reached for _, reached, _ in bars(good))
    dear = {what: reached for what, reached, _ in bars([run("y", 80.0, 70.0, 1.2), *good])}
    assert dear["an answer costs no more than the download's, on any camera"] is False
    missed = {what: reached for what, reached, _ in bars([run("arterial_a", 86.0, 60.0), *good[1:]], ["broken"])}
    assert (missed["arterial_a: T >= 87"], missed["every camera can be read"]) == (False, False)
    assert bars([], ["broken"]) == [("every camera can be read", False, "broken")]
    last = table(good).splitlines()[-1]
    assert "10.0 / 9.0 / 300" in last


def test_frames_of_a_camera_are_cut_into_windows_in_time() -> None:
    frame = LabelledFrame(SampledFrame("c", 0, 0, 0.0, Path("x"), Detections.empty(), ""), ONE, "one")
    camera = BenchCamera("c", (frame,) * 18, (None,) * 18)
    assert [len(w) for w in camera.windows] == [5, 5, 4, 4]


@pytest.mark.parametrize(("only", "words"), [("", "neither a sub-folder"), ("b", "no camera b")])
def test_odd_folders_are_told_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, only: str, words: str
) -> None:
    monkeypatch.setattr("benchmarks.bench_students.open_models", lambda *names: (None, 0.4, None))
    if only:
        stills(tmp_path / "a", 1)
    with pytest.raises(SystemExit):
        main(["--cameras", str(tmp_path), "--only", only])
    assert words in capsys.readouterr().err
