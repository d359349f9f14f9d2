"""The report, and the small parts of a soak that need no appliance."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil

from benchmarks.soak import report as rp
from benchmarks.soak.place import Clockwork
from benchmarks.soak.values import Break, Checked, FaultDone, MemorySample, ProcessSample
from benchmarks.soak.watching import Seen, counters, folder_mb, runs, sample


def process(name: str, pid: int, mb_per_hour: float, minutes: int) -> list[ProcessSample]:
    return [ProcessSample(t, name, pid, 200.0 + mb_per_hour * t / 3600, 8, 40) for t in range(0, minutes * 60, 10)]


def test_growth_is_judged_by_process_and_what_rises_breaks() -> None:
    lives = (("control", 0.0, 40), ("front", 9.0, 8), ("golden", 20.0, 40), ("profiler-0", 9.0, 20))
    rows = rp.growth([s for pid, life in enumerate(lives) for s in process(life[0], pid, *life[1:])])
    found = {r["process"]: r["memory_mb"]["verdict"] for r in rows}
    assert found == {"control": "flat", "golden": "rising", "profiler-0": "short"}, "20 minutes are warming up"
    memory, counts = rp.memory_flat(rows), rp.counts_flat(rows)
    assert [b.said.partition(":")[0] for b in memory.breaks] == ["golden"]
    assert (memory.checks, counts.checks, counts.breaks) == (2, 6, ())
    assert rp.memory_not_judged(rows) == ["profiler-0"]
    assert rows[1]["memory_mb"]["interval"][0] > 5.0, "per cent of the median an hour"
    assert len(rows[0]["mb_by_minute"]) == 40


def test_memory_of_each_process_is_told_by_kind_of_mapping() -> None:
    looks = [
        MemorySample(60.0 * minute, name, pid, {"heap": 100.04 + minute, "arenas": 5.0, "mapped": 90.0, "files": 20.0})
        for minute in (0, 5, 10)
        for name, pid in (("golden", 7), ("golden", 8))
    ]
    (row,) = rp.growth(process("golden", 7, 0.0, 40), looks)
    assert row["mb_by_kind"] == {
        "minute": [0.0, 5.0, 10.0], "heap": [100.0, 105.0, 110.0], "arenas": [5.0] * 3, "mapped": [90.0] * 3,
        "files": [20.0] * 3,
    }  # fmt: skip


def test_memory_that_was_never_judged_is_a_run_that_fails() -> None:
    """Threads and files have a slope from 15 minutes of life, memory from 25."""
    rows = rp.growth(process("control", 1, 30.0, 20))
    found = [rp.memory_flat(rows), rp.counts_flat(rows)]
    assert rp.never_checked(found) == ["memory_flat"]


def test_the_summary_says_what_broke_and_what_was_left_out() -> None:
    gone = FaultDone(1, "camera_gone", "north", 40.0, 60.0)
    left = FaultDone(2, "kill_retrain", "", 70.0, 70.0, tried=False, note="no worker ran")
    seen = Seen()
    seen.answered["camera north"] = [float(t) for t in range(40)] + [float(t) for t in range(75, 200)]
    checked, gaps, rows = rp.check_all(seen, [gone, left], [], [], ("mqtt",), [], (0.0, 200.0), 100.0, {})
    assert {c.name for c in checked if c.breaks} == {"well_again"}, "there was no look at all"
    checked.append(Checked("memory_flat", 1, (Break("memory_flat", 0.0, "golden grows"),)))
    rows = rp.growth([*process("golden", 2, 20.0, 40), *process("profiler-0", 3, 9.0, 20)])
    report = {
        "minutes": 3.0, "never_checked": rp.never_checked(checked),
        "seed": 1, "machine": "m", "faults_done": 1, "broken": 2, "growth": rows,
        "memory_not_judged": rp.memory_not_judged(rows), "not_looked_for": {"kill_retrain": 1},
        "invariants": rp.checked_rows(checked), "gaps": rp.longest_gaps(gaps, [gone, left]),
        "faults": rp.back_after([gone, left], gaps), "not_possible": {"disk_full": "no disk"},
        "requests": {"lenet": {"answered": 7}},
    }  # fmt: skip
    assert report["gaps"]["camera north"] == {"longest_s": 36.0, "bound_s": 81.0, "at_s": 39.0, "fault": "camera_gone"}
    assert report["faults"][0]["back_s"] == 15.0
    text = rp.summary(report)
    assert "golden grows" in text
    assert "none lived for long enough: profiler-0. Faults that no look came after: {'kill_retrain': 1}." in text
    assert "| golden | 40 | 209.14 | 9.563 (9.563 to 9.563) | rising | flat | flat |" in text
    assert "| profiler-0 | 20 | 202.9 | - | short | flat | flat |" in text
    assert "| models_kept | never checked | 0 |" in text
    assert "models_kept" in report["never_checked"]
    assert "answers_back" not in report["never_checked"]
    assert "kill_retrain: no worker ran; disk_full: no disk" in text
    assert "| camera_gone | 1 | 15.0 s | 60 s |" in text


def test_the_wall_clock_of_other_processes_is_moved_and_back(tmp_path: Path) -> None:
    clock = Clockwork(tmp_path)
    code = (
        "import sys, time; print(time.time()); sys.stdout.flush(); input(); print(time.time(), time.gmtime().tm_year)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, **clock.environment}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as child:  # fmt: skip
        assert child.stdout is not None
        before = float(child.stdout.readline())
        assert before <= clock.utc()
        clock.set(400 * 86400.0)
        after, year = child.communicate("\n")[0].split()
    assert float(after) - before >= 400 * 86400.0
    assert float(after) <= clock.utc()
    assert int(year) >= 2027


def test_counters_are_read_of_the_metrics() -> None:
    text = (
        "# HELP magpie_output_sent_total x\n"
        'magpie_output_sent_total{destination="mqtt"} 12.0\nmagpie_output_waiting{destination="mqtt"} 3.0\n'
    )
    assert counters(text) == {'magpie_output_sent_total{destination="mqtt"}': 12.0}


def test_a_process_and_a_folder_are_measured(tmp_path: Path) -> None:
    own = sample(os.getpid(), "me", 1.0)
    assert own is not None
    assert own.memory_mb > 1.0
    assert own.threads >= 1
    assert own.files > 2
    assert sample(2**22 + 1, None, 1.0) is None
    began = psutil.Process().create_time()
    assert runs(os.getpid(), began)
    assert not runs(os.getpid(), began - 1.0), "the number was given again"
    with subprocess.Popen([sys.executable, "-S", "-c", ""]) as child:
        its = psutil.Process(child.pid).create_time()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert not runs(child.pid, its), "it has ended and was not waited for"
    (tmp_path / "a").write_bytes(bytes(500_000))
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "c").write_bytes(bytes(500_000))
    assert folder_mb(tmp_path) == 1.0
