"""The recorder: bounded, even, crash-safe, and silent in the hot path."""

from __future__ import annotations

import errno
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge.core.errors import InvalidValue
from edge.core.vision import Detections, Frame
from edge.core.ways import MovingAnswer
from edge.recording import recorder as recorder_module
from edge.recording.recorder import Recorder

ANSWER = Detections.build([[0.1, 0.1, 0.4, 0.5]], [0.9], [1])


def frame(number: int, at_s: float, *, value: int = 90) -> Frame:
    picture = np.full((36, 64, 3), value, np.uint8)
    picture[:, :32, 0] = number % 200
    return Frame("cam", number, at_s, 1_000.0 + at_s, picture)


def make(root: Path, **more: Any) -> Recorder:
    settings_ = {"max_frames": 20, "min_free_bytes": 0} | more
    return Recorder(root, "cam", **settings_)


def run(recorder: Recorder, window: int, *, length_s: float = 100.0, target: int = 10, fps: float = 5.0) -> int:
    recorder.open_window(window, 0.0, length_s, target)
    kept = 0
    for n in range(int(length_s * fps)):
        kept += recorder.offer(frame(n, n / fps), ANSWER, "v1", 0.1) is not None
    return kept


def test_keeps_one_frame_per_stratum_and_hands_them_back_in_time_order(tmp_path: Path) -> None:
    recorder = make(tmp_path)
    assert run(recorder, 3) == 10
    frames = recorder.close_window(3)
    # The first frame at or after an instant of the stratum: at most one frame period late.
    assert all(10 * i <= f.utc_s - 1000 <= 10 * (i + 1) + 0.2 for i, f in enumerate(frames))
    first = frames[0]
    assert first.path.is_file()
    assert (first.camera, first.window, first.answer_version, first.answer_age_s) == ("cam", 3, "v1", 0.1)
    assert np.allclose(first.answer.boxes, ANSWER.boxes)
    assert recorder.status().kept == 10
    assert recorder.status().state == "idle"
    assert recorder.offer(frame(9999, 500.0), ANSWER, "v1", 0.0) is None


def test_a_sample_keeps_what_its_stale_answer_was_made_of(tmp_path: Path) -> None:
    recorder = make(tmp_path)
    recorder.open_window(1, 0.0, 100.0, 4)
    going = MovingAnswer(ANSWER, np.array([[0.1, -0.05, 0.2]], np.float32))
    kept = [recorder.offer(frame(n, float(n)), ANSWER, "v1", 0.4, going=going) for n in range(100)]
    assert any(kept)
    again = make(tmp_path).frames(1)[0].going
    assert again is not None
    assert np.allclose(again.ways, going.ways)
    assert np.allclose(again.answer.boxes, ANSWER.boxes)


def test_says_when_a_frame_is_worth_converting(tmp_path: Path) -> None:
    recorder = make(tmp_path)
    assert not recorder.wants(50.0)
    recorder.open_window(1, 0.0, 100.0, 4)
    for n in range(500):
        wanted = recorder.wants(n / 5)
        assert (recorder.offer(frame(n, n / 5), ANSWER, "v1", 0.0) is not None) == wanted
    recorder.close_window(1)
    assert not recorder.wants(1000.0)


def test_every_instant_of_the_window_has_the_same_chance(tmp_path: Path) -> None:
    counts = np.zeros(50)
    for seed in range(120):
        recorder = make(tmp_path / str(seed), seed=seed)
        recorder.open_window(1, 0.0, 50.0, 2)
        for n in range(50):
            if recorder.offer(frame(n, n + 0.999), ANSWER, "v1", 0.0):
                counts[n] += 1
    assert counts.sum() == 240
    # 4.8 expected in each of the 50; halves of each stratum must be hit about equally often.
    for low in (0, 25):
        left, right = counts[low : low + 12].sum(), counts[low + 13 : low + 25].sum()
        assert 0.5 < left / right < 2.0


def test_a_restart_takes_over_what_is_on_disk_and_goes_on(tmp_path: Path) -> None:
    first = make(tmp_path)
    first.open_window(7, 0.0, 100.0, 10)
    for n in range(250):
        first.offer(frame(n, n / 5), ANSWER, "v1", 0.0)
    before = first.frames(7)
    second = make(tmp_path)
    assert [f.to_json() for f in second.frames(7)] == [f.to_json() for f in before]
    second.open_window(7, 50.0, 50.0, 5)
    for n in range(250):  # the camera counts from zero again
        second.offer(frame(n, 50 + n / 5), ANSWER, "v2", 0.0)
    after = second.close_window(7)
    assert len(after) == len(before) + 5
    assert len({f.id for f in after}) == len(after)
    assert len({f.path for f in after}) == len(after)


def test_what_a_crash_left_half_done_is_removed_and_counted(tmp_path: Path) -> None:
    run(make(tmp_path), 1)
    folder = tmp_path / "cam" / "window-00000001"
    pictures = sorted(folder.glob("*.jpg"))
    pictures[0].write_bytes(pictures[0].read_bytes()[:-9])
    pictures[1].unlink()
    pictures[2].with_suffix(".json").write_text("{")
    pictures[3].with_suffix(".json").unlink()
    pictures[4].with_suffix(".label.json").write_text("{}")
    (folder / "00000001.jpg.part").write_bytes(b"x")
    recorder = make(tmp_path)
    assert len(recorder.frames(1)) == 6
    assert recorder.status().lost == {"damaged_on_disk": 3}
    left = {p.name for p in folder.iterdir()}
    assert pictures[4].with_suffix(".label.json").name in left
    assert len(left) == 13
    assert not any(name.endswith(".part") for name in left)


def test_a_full_disk_stops_recording_is_counted_and_mends_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = recorder_module.write_whole
    full = True

    def write(path: Path, data: bytes, **more: Any) -> None:
        if full:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(path, data, **more)

    monkeypatch.setattr(recorder_module, "write_whole", write)
    recorder = make(tmp_path)
    recorder.open_window(1, 0.0, 100.0, 20)
    for n in range(250):
        assert recorder.offer(frame(n, n / 5), ANSWER, "v1", 0.0) is None
    status = recorder.status()
    assert status.state == "disk_full"
    assert status.lost == {"disk_full": 10}
    assert "No space left" in status.message
    full = False
    for n in range(250, 500):
        recorder.offer(frame(n, n / 5), ANSWER, "v1", 0.0)
    status = recorder.status()
    assert (status.state, status.message) == ("recording", "")
    assert status.kept + sum(status.lost.values()) == 20
    assert status.kept >= 7


def test_too_little_free_space_counts_as_full(tmp_path: Path) -> None:
    recorder = make(tmp_path, min_free_bytes=10**18)
    assert run(recorder, 1) == 0
    assert recorder.status().state == "disk_full"
    assert recorder.status().lost == {"disk_full": 10}


def test_a_root_that_is_no_folder_is_reported_not_raised(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    recorder = make(tmp_path / "file")
    assert run(recorder, 1) == 0
    assert recorder.status().state == "failing"


def test_gaps_are_counted(tmp_path: Path) -> None:
    recorder = make(tmp_path)
    recorder.open_window(1, 0.0, 100.0, 10)
    for n in range(500):
        if not 150 <= n < 300:  # 30 s without a frame
            recorder.offer(frame(n, n / 5), ANSWER, "v1", 0.0)
    status = recorder.status()
    assert status.kept + status.lost["gap"] == 10
    assert status.lost["gap"] >= 2, "of strata of 10 s"


def test_old_windows_go_with_everything_beside_their_pictures(tmp_path: Path) -> None:
    recorder = make(tmp_path, keep_windows=3)
    for window in range(1, 7):
        run(recorder, window, target=4)
        for f in recorder.close_window(window):
            f.path.with_suffix(".label.json").write_text("{}")
    assert recorder.windows() == (4, 5, 6)
    assert sorted(p.name for p in (tmp_path / "cam").iterdir()) == [f"window-{w:08d}" for w in (4, 5, 6)]


def test_camera_names_cannot_leave_the_folder(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "r", "../../etc/x y", min_free_bytes=0)
    recorder.open_window(1, 0.0, 10.0, 2)
    kept = [recorder.offer(frame(n, float(n)), ANSWER, "v", 0.0) for n in range(10)]
    assert all((tmp_path / "r") in f.path.resolve().parents for f in kept if f)


@pytest.mark.parametrize(
    ("field", "value"), [("max_frames", 0), ("max_bytes", 0), ("keep_windows", 1), ("jpeg_quality", 5)]
)
def test_bounds_are_checked(tmp_path: Path, field: str, value: int) -> None:
    with pytest.raises(InvalidValue, match=f"recording.{field}"):
        make(tmp_path, **{field: value})


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.floats(0.01, 9.0), min_size=1, max_size=60),
    st.integers(1, 12),
    st.integers(1, 8),
    st.integers(2_000, 20_000),
)
def test_never_more_than_the_bounds(
    tmp_path_factory: pytest.TempPathFactory,
    steps: list[float],
    target: int,
    max_frames: int,
    max_bytes: int,
) -> None:
    root = tmp_path_factory.mktemp("r")
    recorder = make(root, max_frames=max_frames, max_bytes=max_bytes, keep_windows=2)
    now = 0.0
    for window in range(1, 5):
        recorder.open_window(window, now, 40.0, target)
        for n, step in enumerate(steps):
            now += step
            recorder.offer(frame(n, now), ANSWER, "v", 0.0)
        kept = recorder.close_window(window)
        assert len(kept) <= min(target, max_frames)
        on_disk = [p for p in root.rglob("*") if p.is_file()]
        assert sum(p.stat().st_size for p in on_disk) == recorder.status().bytes <= max_bytes
        assert len({p.parent for p in on_disk}) <= 2
        for f in kept:
            assert json.loads(f.path.with_suffix(".json").read_text())["sample"]["path"] == f.path.name
