"""Processes that check a model's file once: each has the memory of a worker, and no more."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import onnx
import pytest
import worker_mains as mains
import yaml
from serving_kit import echo, lenet, served, table

from edge.appliance.appliance import DEMO_TEACHER
from edge.core.errors import MagpieError, MemoryLimitExceeded, Unavailable, WeightsError, WorkerFailed
from edge.core.front_messages import ServedVersion
from edge.runtime.golden_worker import GoldenWorkerSpec, check_golden
from edge.runtime.one_off import first_message, run_once
from edge.runtime.serving_check import check_version
from edge.serving.repository import Repository
from edge.shares.coop import BucketFolder
from edge.shares.cpu import CpuPartitioner

MIB = 2**20
FILE = "models/net.onnx"


def test_one_that_takes_more_than_it_may_is_ended() -> None:
    with pytest.raises(MemoryLimitExceeded) as caught:
        first_message("check", mains.takes_and_waits, 900, FILE, 800 * MIB)
    said = str(caught.value)
    assert FILE in said
    assert "machine.worker_memory_mb: 800 MiB" in said
    assert isinstance(caught.value, WorkerFailed)
    assert str(pickle.loads(pickle.dumps(caught.value))) == said


def test_one_that_asks_for_much_more_at_once_does_not_get_it() -> None:
    with pytest.raises(MemoryLimitExceeded, match="1024 MiB"):
        first_message("check", mains.asks_at_once, 4000, FILE, 1024 * MIB)
    assert first_message("check", mains.asks_at_once, 100, FILE, 1024 * MIB) == 100 * MIB


@pytest.mark.parametrize(
    "words", ["std::bad_alloc", "BFCArena: Failed to allocate memory for requested buffer of size 8"]
)
def test_a_library_that_says_so_in_its_own_words_is_understood(words: str) -> None:
    with pytest.raises(MemoryLimitExceeded, match=FILE):
        run_once("check", mains.raises, WeightsError(words), FILE)


def test_everything_else_stays_what_it_was() -> None:
    assert run_once("check", mains.beats_first, None, FILE) == "done"
    with pytest.raises(WeightsError, match="no tensors"):
        run_once("check", mains.raises, WeightsError("no tensors"), FILE)
    with pytest.raises(MagpieError, match="unexpected: odd"):
        run_once("check", mains.raises, ValueError("odd"), FILE)
    with pytest.raises(WorkerFailed, match=f"{FILE}: its process ended"):
        run_once("check", mains.ends, None, FILE)


def test_a_crash_names_the_limit_that_may_have_caused_it() -> None:
    with pytest.raises(WorkerFailed, match=r"its process ended by SIGSEGV .*machine\.worker_memory_mb: 2048 MiB"):
        run_once("check", mains.crashes, None, FILE, 2048 * MIB)


def test_one_that_says_nothing_is_given_up() -> None:
    with pytest.raises(Unavailable, match=FILE):
        first_message("check", mains.takes_and_waits, 1, FILE, patience_s=0.0)


def swollen(folder: Path, name: str) -> ServedVersion:
    """A small file whose graph makes a tensor of 4 GB of each request."""
    size = onnx.numpy_helper.from_array(np.array([1, 1_000_000_000], np.int64), "size")
    x = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["n", 1])
    y = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, ["n", 1])
    nodes = [
        onnx.helper.make_node("Expand", ["x", "size"], ["large"]),
        onnx.helper.make_node("ReduceMax", ["large"], ["y"], axes=[1], keepdims=1),
    ]
    graph = onnx.helper.make_graph(nodes, "g", [x], [y], [size])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    (folder / name / "1").mkdir(parents=True)
    onnx.save(model, folder / name / "1" / "model.onnx")
    tensor = {"datatype": "FP32", "shape": [-1, 1]}
    about = {"platform": "onnx", "slo_ms": 500.0, "max_batch": 1, "inputs": [{"name": "x", **tensor}]}
    about["outputs"] = [{"name": "y", **tensor}]
    (folder / name / "model.yaml").write_text(yaml.safe_dump(about), encoding="utf-8")
    return Repository(folder).resolve(name)


def test_a_served_model_that_swells_is_refused_with_file_and_setting(tmp_path: Path) -> None:
    version = swollen(tmp_path, "swollen")
    with pytest.raises(MemoryLimitExceeded) as caught:
        check_version(version, 1024 * MIB)
    assert "swollen/1" in str(caught.value)
    assert "model.onnx" in str(caught.value)
    assert "machine.worker_memory_mb: 1024 MiB" in str(caught.value)


def test_a_served_model_that_fits_is_taken(tmp_path: Path) -> None:
    lenet(tmp_path, "small")
    check_version(Repository(tmp_path).resolve("small"), 2048 * MIB)


async def test_a_repository_is_checked_under_the_site_s_limit(tmp_path: Path) -> None:
    """The limit of workers comes from the settings with the supervisor; what fits is served all the same."""
    swollen(tmp_path / "models", "swollen")
    echo(tmp_path / "models", "left")
    (tmp_path / "buckets").mkdir()
    partitioner = CpuPartitioner(2.0, None, BucketFolder(tmp_path / "buckets"))
    tables = (table(tmp_path, "left", "swollen"),)
    async with served(tmp_path, tmp_path / "models", partitioner, tables, 1024 * MIB) as box:
        await box.serving("left")
        await box.until(lambda: any("swollen" in words for _, words in box.complaints), "the operator sees it")
    partitioner.close()
    (words,) = [words for code, words in box.complaints if code == "model_failed"]
    assert "model.onnx" in words
    assert "machine.worker_memory_mb: 1024 MiB" in words


def test_a_teacher_s_check_is_limited_too() -> None:
    # Native code that is refused memory may crash: that names the limit, too.
    with pytest.raises(WorkerFailed, match=r"machine\.worker_memory_mb: 64 MiB"):
        check_golden(GoldenWorkerSpec(DEMO_TEACHER), 64 * MIB)
