"""`magpie load` against a real server: what is sent, what is counted, and what is refused."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from load_double import Manners, served

from edge.commands import load as command
from edge.core.errors import InvalidValue, MagpieError, NotFound, Unavailable
from edge.core.oip import DATATYPES
from edge.load.arrivals import arrivals
from edge.load.run import LoadProgress, run_load
from edge.load.spec import LoadSpec, parse_load


@pytest.fixture
def service() -> Manners:
    return Manners()


@pytest.fixture
async def url(service: Manners) -> AsyncIterator[str]:
    async with served(service) as address:
        yield address


def scenario(url: str, *models: dict[str, Any], **more: Any) -> LoadSpec:
    return parse_load({"url": url, "duration_s": 0.4, "models": list(models), **more})


def offered(spec: LoadSpec) -> list[int]:
    """How many requests the arrivals of each model are."""
    whole_s = spec.warm_up_s + spec.duration_s
    return [len(arrivals(m.demand(spec.folder), whole_s, spec.seed, m.name)) for m in spec.models]


async def test_every_request_of_the_arrivals_is_sent_and_counted(url: str, service: Manners) -> None:
    spec = scenario(url, {"name": "echo", "rate": 300, "slo_ms": 9000}, {"name": "moody", "rate": 200})
    report = await run_load(spec)
    assert (report.server, report.interrupted) == ("manners 1", False)
    echo, moody = report.models
    assert [echo.counts.offered, moody.counts.offered] == offered(spec)
    assert echo.counts.offered > 50
    assert (echo.counts.answered, echo.counts.violations) == (echo.counts.offered, 0)
    # One request each was the client's own look at the model.
    assert service.asked == {"echo": echo.counts.offered + 1, "moody": moody.counts.offered + 1}
    # moody goes on with its second manner: dropped, rejected, failed, answered, and again.
    counts = [len(range(n, moody.counts.offered, 4)) for n in range(4)]
    assert [moody.counts.dropped, moody.counts.rejected, moody.counts.failed, moody.counts.answered] == counts
    assert moody.counts.violations == sum(counts[:3])
    assert set(moody.errors) == {
        "504: it would be late",
        "429: the queue is full",
        "503: the executor was lost",
    }
    assert sum(moody.errors.values()) == moody.counts.violations


async def test_requests_leave_when_they_are_due_whatever_the_answers_do(url: str, service: Manners) -> None:
    spec = scenario(url, {"name": "stalled", "rate": 200})
    (count,) = offered(spec)
    run = asyncio.create_task(run_load(spec))
    while service.asked["stalled"] < count + 1:  # all are there though none was answered
        await asyncio.sleep(0.01)
        assert not run.done()
    service.gate.set()
    (m,) = (await run).models
    assert (m.counts.offered, m.counts.answered) == (count, count)


async def test_what_is_never_answered_is_given_up_and_too_many_are_not_sent(url: str, service: Manners) -> None:
    spec = scenario(url, {"name": "stalled", "rate": 100}, give_up_s=0.6, max_in_flight=7)
    report = await run_load(spec)
    service.gate.set()
    (m,) = report.models
    assert (m.counts.gave_up, m.counts.unsent, m.counts.answered) == (7, m.counts.offered - 7, 0)
    assert (m.counts.violations, m.violation_ratio) == (7, 1.0)
    assert m.errors == {"no answer within 0.6 s": 7}
    assert not report.client_kept_up


async def test_a_server_that_dies_fails_the_rest(service: Manners) -> None:
    spec = scenario("http://placeholder", {"name": "stalled", "rate": 100}, give_up_s=20)
    (count,) = offered(spec)
    async with served(service) as url:
        run = asyncio.create_task(run_load(spec.model_copy(update={"url": url})))
        while service.asked["stalled"] < count // 2:
            await asyncio.sleep(0.01)
        service.gate.set()
    (m,) = (await run).models
    assert m.counts.offered == count == m.counts.answered + m.counts.failed
    assert m.counts.failed > 0
    assert any("onnect" in words for words in m.errors)


async def test_warming_up_does_not_count(url: str, service: Manners) -> None:
    spec = scenario(url, {"name": "echo", "rate": 200}, warm_up_s=0.3, duration_s=0.2)
    (m,) = (await run_load(spec)).models
    due = arrivals(spec.models[0].demand(Path()), 0.5, 0, "echo")
    assert m.counts.offered == np.count_nonzero(due >= 0.3)
    assert service.asked["echo"] == len(due) + 1


async def test_a_run_can_be_ended_early_and_tells_how_it_goes(url: str, service: Manners) -> None:
    stop = asyncio.Event()
    reported: list[LoadProgress] = []

    def progress(now: LoadProgress) -> None:
        reported.append(now)
        if now.answered:
            stop.set()

    report = await run_load(scenario(url, {"name": "echo", "rate": 100}, duration_s=3600), progress, stop)
    (m,) = report.models
    assert report.interrupted
    assert "ended early" in report.table()
    assert m.counts.offered == m.counts.answered + m.counts.unsent
    assert report.duration_s < 3600
    assert reported[-1].answered > 0
    assert m.offered_rate == pytest.approx(m.counts.offered / report.duration_s, rel=0.01)


async def test_tensors_of_every_datatype_fit_the_model(url: str, service: Manners) -> None:
    spec = scenario(url, {"name": "all_types", "rate": 50, "rows": 2})
    (m,) = (await run_load(spec)).models
    assert m.counts.answered == m.counts.offered > 0
    for request in service.seen:
        assert [t.datatype for t in request.inputs] == list(DATATYPES)
        assert {t.array.shape for t in request.inputs} == {(2, 3)}
    texts = next(t.array for t in service.seen[0].inputs if t.datatype == "BYTES")
    assert all(len(text) == 16 for text in texts.ravel())


async def test_the_seed_decides_what_is_sent(url: str, service: Manners) -> None:
    async def sent(seed: int) -> list[bytes]:
        service.seen.clear()
        await run_load(scenario(url, {"name": "echo", "rate": 60, "samples": 4}, seed=seed, duration_s=0.2))
        return [r.inputs[0].array.tobytes() for r in service.seen]

    first = await sent(1)
    assert first[:3] == (await sent(1))[:3]
    assert first[:3] != (await sent(2))[:3]
    assert 1 < len(set(first)) <= 4


async def test_rows_come_from_a_file_in_turn_and_requests_say_what_they_want(
    url: str, service: Manners, tmp_path: Path
) -> None:
    pictures = np.arange(5 * 2 * 4 * 3, dtype=np.uint8).reshape(5, 2, 4, 3)
    np.save(tmp_path / "pictures.npy", pictures)
    load = {
        "name": "open", "version": "1", "rate": 100, "rows": 2, "slo_ms": 2000, "priority": 3, "send_timeout": True,
        "inputs": {"input.1": "pictures.npy"}, "outputs": ["input.1_again"], "samples": 5,
    }  # fmt: skip
    spec = parse_load({"url": url, "duration_s": 0.3, "models": [load]}, tmp_path)
    (m,) = (await run_load(spec)).models
    assert (m.model, m.counts.answered) == ("open/1", m.counts.offered)
    request = service.seen[1]
    assert (request.priority, request.timeout_us, request.outputs) == (3, 2_000_000, ("input.1_again",))
    rows = {r.inputs[0].array.tobytes() for r in service.seen}
    assert rows <= {pictures[[n % 5, (n + 1) % 5]].tobytes() for n in range(0, 10, 2)}
    assert len(rows) > 2


async def test_sizes_that_a_model_leaves_open_are_given_or_asked_for(url: str, service: Manners) -> None:
    with pytest.raises(InvalidValue, match=r"--shape open:input\.1=64x64x3"):
        await run_load(scenario(url, {"name": "open", "rate": 1}))
    sizes = {"shapes": {"input.1": [6, 5, 3]}}
    await run_load(scenario(url, {"name": "open", "rate": 50, **sizes}))
    assert service.seen[0].inputs[0].array.shape == (1, 6, 5, 3)
    await run_load(scenario(url, {"name": "fixed", "rate": 50}))
    assert service.seen[-1].inputs[0].array.shape == (2, 4)


async def test_the_models_own_objective_holds_where_none_is_given(url: str) -> None:
    report = await run_load(
        scenario(url, {"name": "echo", "rate": 20}, {"name": "open", "rate": 20, "shapes": {"input.1": [1, 1, 3]}})
    )
    assert [m.slo_ms for m in report.models] == [12345, None]


@pytest.mark.parametrize(
    ("load", "error", "says"),
    [
        ({"name": "nobody", "rate": 1}, NotFound, "there is no model nobody"),
        ({"name": "echo", "version": "7", "rate": 1}, NotFound, "there is no model echo 7"),
        ({"name": "away", "rate": 1}, NotFound, "not ready"),
        ({"name": "echo", "rate": 1, "outputs": ["z"]}, InvalidValue, r"echo\.outputs: got 'z', allowed: .*x_again"),
        ({"name": "echo", "rate": 1, "inputs": {"z": "f.npy"}}, InvalidValue, r"echo\.inputs: got 'z', allowed: .*x"),
        ({"name": "echo", "rate": 1, "inputs": {"x": "f.npy"}}, NotFound, r"f\.npy: cannot be read"),
        ({"name": "echo", "rate": 1, "shapes": {"x": [5]}}, InvalidValue, r"echo\.x shape: got \[5\]"),
        ({"name": "moody", "rate": 1, "send_timeout": True}, InvalidValue, r"moody\.send_timeout"),
        ({"name": "echo", "rate": 900_000}, InvalidValue, r"at most 20,000,000 requests"),
        ({"name": "echo", "arrivals": {"kind": "recorded", "file": "none.csv"}}, NotFound, r"none\.csv"),
    ],
)
async def test_what_cannot_be_sent_is_refused_before_anything_is(
    url: str, service: Manners, load: dict[str, Any], error: type[MagpieError], says: str
) -> None:
    with pytest.raises(error, match=says):
        await run_load(scenario(url, load, duration_s=100))
    assert not service.seen


@pytest.mark.parametrize(
    ("array", "says"),
    [
        (np.zeros((2, 4), np.float64), "float64"),
        (np.zeros((2, 5), np.float32), r"\[5\]"),
        (np.array(3, np.float32), "at least one row"),
        (np.array([{}], dtype=object), "of numbers"),
    ],
    ids=["type", "shape", "no rows", "pickle"],
)
async def test_files_that_do_not_fit_are_refused(url: str, tmp_path: Path, array: np.ndarray, says: str) -> None:
    np.save(tmp_path / "x.npy", array, allow_pickle=True)
    load = {"name": "echo", "rate": 1, "inputs": {"x": "x.npy"}}
    with pytest.raises(InvalidValue, match=says):
        await run_load(parse_load({"url": url, "models": [load]}, tmp_path))


async def test_what_is_no_server_of_the_protocol_is_said() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        with pytest.raises(Unavailable, match="cannot be reached"):
            await run_load(scenario(f"127.0.0.1:{port}", {"name": "echo", "rate": 1}))

    async def page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 13\r\n\r\n<html></html>")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(page, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(InvalidValue, match="server of the Open Inference Protocol"):
            await run_load(scenario(f"127.0.0.1:{port}", {"name": "echo", "rate": 1}))


# the command


def parsed(*arguments: str) -> LoadSpec:
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.load_spec(parser.parse_args(arguments))


def test_arguments_describe_a_run(tmp_path: Path) -> None:
    spec = parsed(
        "box:8000", "--model", "lenet:50:95", "--model", "vgg:2.5", "--arrivals", "bursty:6:0.5", "--wave",
        "sine:60:0.5", "--duration", "30", "--seed", "4", "--warm-up", "2", "--rows", "2", "--shape", "vgg:x=3x64x64",
        "--input", "lenet:x=a.npy", "--send-timeout",
    )  # fmt: skip
    assert (spec.url, spec.duration_s, spec.seed, spec.warm_up_s) == ("http://box:8000", 30, 4, 2)
    lenet, vgg = spec.models
    assert (lenet.rate, lenet.slo_ms, vgg.rate, vgg.slo_ms, vgg.rows) == (50, 95, 2.5, None, 2)
    assert vgg.arrivals.model_dump() == {"kind": "bursty", "burstiness": 6, "burst_s": 0.5, "calm": 0}
    assert vgg.wave is not None
    assert vgg.shapes == {"x": (3, 64, 64)}
    assert lenet.inputs == {"x": str(Path("a.npy").absolute())}
    steps = parsed("--model", "a:1", "--wave", "steps:0=1,30=2").models[0].wave
    assert steps is not None
    assert steps.model_dump() == {"kind": "steps", "steps": ((0, 1), (30, 2)), "repeat_s": None}


def test_a_scenario_file_describes_a_run_and_arguments_win(tmp_path: Path) -> None:
    (tmp_path / "gate.csv").write_text("start_s,rate\n0,5\n60,10\n")
    file = tmp_path / "evening.yaml"
    file.write_text(
        "duration_s: 20\nseed: 3\nmodels:\n"
        "  - {name: plates, slo_ms: 80, arrivals: {kind: recorded, file: gate.csv}}\n"
        "  - {name: poses, rate: 5, wave: {kind: steps, steps: [[0, 1], [5, 2]]}}\n"
    )
    spec = parsed("--from", str(file), "--duration", "40")
    assert (spec.duration_s, spec.seed, [m.name for m in spec.models]) == (40, 3, ["plates", "poses"])
    assert spec.models[0].demand(spec.folder).mean_rate == 7.5


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "--model: got None"),
        (["--model", "lenet"], "NAME:RATE"),
        (["--model", "lenet:fast"], "--model: got 'fast', allowed: a number"),
        (["--model", "lenet:-1"], r"models\.0\.rate: got -1"),
        (["--model", "lenet:nan"], r"models\.0\.rate"),
        (["--model", "lenet:recorded"], "only recorded arrivals have a rate"),
        (["--model", "lenet:1:0"], r"models\.0\.slo_ms"),
        (["--model", "a:1", "--model", "a:2"], "more than once"),
        (["--model", "a:1", "--arrivals", "often"], "--arrivals: got 'often'"),
        (["--model", "a:1", "--arrivals", "bursty:0.1"], "burstiness"),
        (["--model", "a:1", "--wave", "sine:60"], "--wave"),
        (["--model", "a:1", "--wave", "steps:0=1,5"], "--wave"),
        (["--model", "a:1", "--wave", "steps:0=x"], "a number"),
        (["--model", "a:1", "--duration", "0"], "duration_s"),
        (["--model", "a:1", "--shape", "b:x=3"], "a model under load: a"),
        (["--model", "a:1", "--shape", "a=3"], "MODEL:TENSOR=VALUE"),
        (["ftp://box", "--model", "a:1"], "http://HOST:PORT"),
        (["--from", "/nowhere/at/all.yaml"], "cannot be read"),
    ],
)
def test_bad_arguments_are_refused_in_words(arguments: list[str], says: str) -> None:
    with pytest.raises(MagpieError, match=says):
        parsed(*arguments)


@pytest.mark.parametrize("text", ["[]", "models: 5", "a: [", "models: [{name: a, rate: 1}]\ndurations: 5", "folder: /",
                                  "models: 2026-13-45"])  # fmt: skip
def test_bad_scenario_files_are_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(text)
    with pytest.raises(MagpieError):
        parsed("--from", str(file))


@pytest.mark.parametrize(
    ("model", "says"),
    [("{rate: 1}", "a model under load"), ("{name: a, rate: 1, shapes: 3}", "tensors by their names")],
)
def test_an_argument_for_a_model_that_the_scenario_has_wrong(tmp_path: Path, model: str, says: str) -> None:
    file = tmp_path / "s.yaml"
    file.write_text(f"models: [{model}]")
    with pytest.raises(MagpieError, match=says):
        parsed("--from", str(file), "--shape", "a:x=3")


async def magpie(*arguments: str) -> tuple[int | None, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "edge.cli", "load", *arguments, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE, cwd=Path(__file__).resolve().parents[2],
    )  # fmt: skip
    out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def test_the_command_prints_a_table_writes_the_report_and_its_exit_code_tells(url: str, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    code, out, err = await magpie(
        url, "--model", "echo:100:5000", "--model", "moody:40", "--duration", "0.5", "--report", str(file),
        "--max-violation", "1",
    )  # fmt: skip
    assert (code, err) == (command.VIOLATED, "")
    assert out.splitlines()[1].startswith("echo")
    value = json.loads(file.read_text())
    assert [m["model"] for m in value["models"]] == ["echo", "moody"]
    assert value["models"][1]["dropped"] > 0
    code, out, err = await magpie(url, "--model", "nobody:1")
    assert (code, out) == (1, "")
    assert err.startswith("magpie load: ")
    assert "there is no model nobody" in err


async def test_ctrl_c_ends_a_run_early_with_a_report(url: str, service: Manners) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "edge.cli", "load", url, "--model", "echo:50", "--duration", "3600",
        stdout=asyncio.subprocess.PIPE, cwd=Path(__file__).resolve().parents[2],
    )  # fmt: skip
    while service.asked["echo"] < 5:
        await asyncio.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, _ = await process.communicate()
    assert process.returncode == 0
    assert b"The run was ended early." in out
