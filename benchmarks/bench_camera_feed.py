"""The cost of handing a camera's answers to the serving front: the worker's time, and the time until a stage could ask.

`python -m benchmarks.bench_camera_feed [--answers N]` prints a table and writes
benchmarks/results/camera_feed.json. A worker's end in a process of its own hands
pictures of 640 x 360, 1280 x 720 and 1280 x 960 with 20 objects to a real front's socket at 10 a second; the front cuts
8 of them out (64 x 64). `hand over` is the time that the camera's worker spends; `until asked` is from there to the
request of the model, whose tensors are then ready. `copy` is a plain copy of such a picture.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.machine import when_and_where
from edge.core.oip import InferRequest, InferResponse, ModelMetadata, Tensor, TensorSpec
from edge.core.vision import Detections
from edge.serving.applications import ApplicationService
from edge.serving.camera_feeds import CameraFeeds
from edge.serving.camera_link import CAMERA_ARENA_BYTES, CameraSender
from edge.serving.front_server import FrontServer
from edge.serving.pipeline_files import parse_application

RESULTS = Path(__file__).parent / "results" / "camera_feed.json"
SIZES = ((360, 640), (720, 1280), (960, 1280))
OBJECTS, CUTS, EVERY_S = 20, 8, 0.1
CUT = {"crop_boxes": {"boxes": "boxes", "scores": "scores", "most": CUTS, "size": [64, 64]}}
DESCRIPTION = {
    "platform": "pipeline", "slo_ms": 1000, "source": {"camera": "gate"},
    "stages": [{"name": "look", "model": "m", "inputs": {"x": {"from": "picture", "do": [CUT]}}}],
    "outputs": [{"name": "y", "datatype": "FP32", "shape": [-1, CUTS], "from": "look.y", "attribute": {}}],
}  # fmt: skip


class Model:
    """Answers nothing of use; `asked_s` are the times of its requests."""

    def __init__(self) -> None:
        self.asked_s: list[float] = []

    def model_metadata(self, model: str, version: str | None) -> ModelMetadata:
        x, y = TensorSpec("x", "UINT8", (-1, 64, 64, 3)), TensorSpec("y", "FP32", (-1,))
        return ModelMetadata(model, ("1",), "none", (x,), (y,))

    async def infer(self, request: InferRequest) -> InferResponse:
        self.asked_s.append(time.monotonic())
        rows = len(request.inputs[0].array)
        return InferResponse(request.model, "1", (Tensor("y", "FP32", np.zeros(rows, np.float32)),))


def worker(pipe: Connection, path: str, height: int, width: int, answers: int) -> None:
    """Hand `answers` pictures over; sends (when, how long) of each, and how long a copy of the picture takes."""
    rng = np.random.default_rng(1)
    picture = rng.integers(0, 255, (height, width, 3), dtype=np.uint8)
    corners = rng.uniform(0.0, 0.8, (OBJECTS, 2))
    found = Detections.build(
        np.hstack([corners, corners + 0.1]), rng.uniform(0.3, 1.0, OBJECTS), np.zeros(OBJECTS, np.int64)
    )
    sender = CameraSender(Path(path), "gate", "token", ("car",))
    while not sender.send(0, picture, found, ["app"], time.monotonic()):
        time.sleep(0.01)
    times = []
    for number in range(answers):
        time.sleep(EVERY_S)
        began = time.monotonic()
        if sender.send(number + 1, picture, found, ["app"], began):
            times.append((began, time.monotonic() - began))
    time.sleep(0.5)
    copies = []
    other = np.empty_like(picture)
    for _ in range(50):
        began = time.monotonic()
        other[...] = picture
        copies.append(time.monotonic() - began)
    pipe.send((times, copies))
    pipe.recv()
    sender.close()


async def measured(height: int, width: int, answers: int) -> Mapping[str, Sequence[float]]:
    """Seconds of each answer, by what they were spent on."""
    model = Model()
    inner: Any = model
    service = ApplicationService(inner, [parse_application("app", DESCRIPTION)])
    feeds = CameraFeeds(service, lambda _: None)
    with tempfile.TemporaryDirectory() as folder:
        server = FrontServer(Path(folder) / "front.sock", lambda _: None, on_camera=feeds.answered)
        server.expect("gate", "token", CAMERA_ARENA_BYTES, "camera")
        await server.start()
        ours, theirs = multiprocessing.Pipe()
        process = multiprocessing.get_context("spawn").Process(
            target=worker, args=(theirs, str(server.path), height, width, answers)
        )
        process.start()
        times, copies = await asyncio.to_thread(ours.recv)
        ours.send(None)
        await asyncio.to_thread(process.join)
        await server.stop()
        await feeds.close()
        service.close()
    asked = model.asked_s[-len(times) :]
    until = [at - began for at, (began, _) in zip(asked, times, strict=True)]
    return {"copy": copies, "hand over": [took for _, took in times], "until asked": until}


def main() -> None:
    """Measure each size and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--answers", type=int, default=100)
    answers = parser.parse_args().answers
    rows: list[dict[str, Any]] = []
    print("| picture | of | p50 ms | p99 ms |\n|---|---|---|---|")
    for height, width in SIZES:
        found = asyncio.run(measured(height, width, answers))
        for name, seconds in found.items():
            p50, p99 = np.percentile(np.array(seconds) * 1000, (50, 99))
            print(f"| {width} x {height} | {name} | {p50:.2f} | {p99:.2f} |")
            rows.append(
                {"width": width, "height": height, "of": name, "p50_ms": round(p50, 3), "p99_ms": round(p99, 3)}
            )
    result = {
        "benchmark": "camera_feed",
        **when_and_where(),
        "load": round(os.getloadavg()[0], 1),
        "answers": answers,
        "rows": rows,
    }
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
