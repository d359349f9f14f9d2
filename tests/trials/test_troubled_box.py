"""A running appliance whose disk fills up, whose disk fails, and whose clock is set: cameras are answered all along."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from appliance_kit import Watched, cameras, site_of

from benchmarks.small_disk import fill, small_disk
from edge.appliance.appliance import Appliance
from edge.commands.front_process import front_process
from edge.core.clock import SystemClock
from edge.core.errors import Unavailable
from edge.demo.cameras import serve_cameras

pytestmark = [pytest.mark.e2e, pytest.mark.faults, pytest.mark.timeout(480)]


class SetClock(SystemClock):
    """The machine's clock, which a test sets; it runs on as before."""

    def __init__(self) -> None:
        self.added_s = 0.0

    def utc(self) -> float:
        return super().utc() + self.added_s


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own."""
    try:
        with small_disk(tmp_path) as folder:
            yield folder
    except Unavailable as error:
        pytest.skip(str(error))


@contextlib.asynccontextmanager
async def watched(data: Path, clock: SystemClock | None = None) -> AsyncIterator[Watched]:
    """An appliance with one camera, answering."""
    data.mkdir(exist_ok=True)
    with serve_cameras(cameras(1), data.parent) as port:
        async with Appliance(site_of(port, data, count=1, window_s=15.0), front_process, clock) as appliance:
            running = Watched(appliance)
            following = asyncio.create_task(running.follow())
            await running.answering()
            yield running
            following.cancel()


async def goes_on(running: Watched) -> None:
    """The camera is answered now."""
    (camera,) = running.appliance.runtime.cameras
    answers = running.answers(camera)
    await running.until(lambda: running.answers(camera) > answers + 5, "the camera is answered")


def complaints(running: Watched) -> set[str]:
    return {c["code"] for c in running.appliance.runtime.complaints.recent}


def number(running: Watched) -> int:
    """The window that runs."""
    return int(running.appliance.services.state.overview().window.number)


def windows(running: Watched) -> int:
    """The newest window that the database knows."""
    return max((w.id for w in running.appliance.services.windows.recent(5, None)), default=-1)


async def test_a_disk_that_is_full_is_said_and_all_goes_on_when_there_is_room_again(disk: Path) -> None:
    async with watched(disk / "data") as running:
        filler = disk / "filler"
        fill(filler)
        window = number(running)
        await running.until(lambda: "disk_full" in complaints(running), "the full disk is said")
        await running.until(lambda: number(running) > window, "windows go on")
        await goes_on(running)
        filler.unlink()
        known = windows(running)
        await running.until(lambda: windows(running) > known, "windows are recorded again")
        await goes_on(running)


def reasons(running: Watched) -> set[str]:
    """The codes of what health complains of."""
    return {r.code for r in running.appliance.services.state.health().reasons}


def samples_lost(running: Watched) -> int:
    """Pictures drawn for the sample that could not be kept, as the overview shows them."""
    (camera,) = running.appliance.services.state.overview().cameras
    return int(camera.state.losses["samples_lost"])


async def test_a_disk_that_fails_is_said_and_cameras_are_answered(disk: Path) -> None:
    async with watched(disk / "data") as running:
        subprocess.run(["mount", "-o", "remount,abort", str(disk)], check=True)  # as after an error of the device
        with pytest.raises(OSError, match=os.strerror(errno.EROFS)):
            (disk / "x").write_text("x")
        window = number(running)
        await running.until(lambda: "store" in reasons(running), "the database that cannot be written is said")
        assert not running.appliance.services.state.health().ready
        await running.until(lambda: number(running) > window, "windows go on")
        await running.until(lambda: samples_lost(running) > 0, "pictures that cannot be kept are counted")
        await goes_on(running)
        assert "store" in reasons(running), "for as long as it lasts"
    # It ends all the same: nothing waits for a disk that never comes back.


def make_read_only(data: Path, wanted: bool) -> None:
    """No process can write the database and its log, root's neither (the index of the log is memory that processes
    share, and takes no error)."""
    files = [str(data / name) for name in ("magpie.db", "magpie.db-wal")]
    subprocess.run(["chattr", "+i" if wanted else "-i", *files], check=True)


async def test_a_database_that_is_read_only_for_a_while_is_said_and_nothing_is_lost(disk: Path) -> None:
    trial = disk / "trial"
    trial.touch()
    if subprocess.run(["chattr", "+i", str(trial)], capture_output=True, check=False).returncode:
        pytest.skip("no file can be made read-only for root here: chattr +i is refused")
    subprocess.run(["chattr", "-i", str(trial)], check=True)
    data = disk / "data"
    async with watched(data) as running:
        state = running.appliance.services.state
        assert (state.health().ready, "store" in reasons(running)) == (True, False)
        make_read_only(data, True)
        try:
            window = number(running)
            await running.until(lambda: "store" in reasons(running), "it is said")
            assert not state.health().ready
            await running.until(lambda: number(running) > window, "windows go on")
            await goes_on(running)
        finally:
            make_read_only(data, False)
        await running.until(lambda: "store" not in reasons(running) and state.health().ready, "it is well again")
        known = windows(running)
        await running.until(lambda: windows(running) > known, "windows are recorded again")
        assert state.overview().losses.journal == 0, "the journal waited for it"
        opened = {e.window for e in running.appliance.services.events.recent(50, None, None, "window.opened")}
        assert window + 1 in opened, "entries of that time are kept"
        await goes_on(running)


@pytest.mark.parametrize("step_s", [3600.0, -3600.0])
async def test_a_clock_that_is_set_by_an_hour_moves_no_window(step_s: float, tmp_path: Path) -> None:
    clock = SetClock()
    async with watched(tmp_path / "data", clock) as running:
        window = number(running)
        clock.added_s += step_s
        await goes_on(running)
        await running.until(lambda: number(running) > window, "the window ends")
        entries = running.appliance.services.events.recent(50, None, None, "window.opened")
        opened = sorted(e.window for e in entries if e.window is not None)
        assert opened == list(range(opened[0], opened[0] + len(opened))), "no window is skipped or repeated"
        await running.until(
            lambda: abs(running.appliance.services.windows.recent(1, None)[0].start_utc_s - clock.utc()) < 60.0,
            "the new window is recorded with the new time",
        )
        await goes_on(running)
