"""Applications: descriptions that are checked, stages that are asked in order and in time, answers that are joined."""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from edge.core.applications import Application
from edge.core.errors import DeadlineMissed, InvalidValue, MagpieError, NotFound, Overloaded, Unavailable
from edge.core.oip import DATATYPES, InferRequest, InferResponse, ModelMetadata, RepositoryEntry, Tensor, TensorSpec
from edge.serving.applications import ApplicationService
from edge.serving.pipeline_files import parse_application, read_application
from scheduler.gpulets.applications import expand

CONFIGS = Path(__file__).resolve().parents[2] / "configs" / "applications"

Function = Callable[[dict[str, NDArray[Any]]], Mapping[str, NDArray[Any]]]


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Models:
    """An InferenceService of numpy functions; `takes_s[model]` moves the clock, `errors[model]` is raised once."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.models: dict[str, tuple[ModelMetadata, Function]] = {}
        self.takes_s: dict[str, float] = {}
        self.errors: dict[str, BaseException] = {}
        self.gates: dict[str, asyncio.Event] = {}
        self.asked: list[InferRequest] = []
        self.cancelled: list[str] = []
        self.not_ready: set[str] = set()
        self.loaded: list[str] = []

    def add(self, name: str, inputs: list[TensorSpec], outputs: list[TensorSpec], function: Function) -> None:
        self.models[name] = ModelMetadata(name, ("1",), "numpy", tuple(inputs), tuple(outputs)), function

    def live(self) -> bool:
        return True

    def ready(self) -> bool:
        return not self.not_ready

    def model_ready(self, model: str, version: str | None) -> bool:
        self.model_metadata(model, version)
        return model not in self.not_ready

    def server_metadata(self) -> Mapping[str, Any]:
        return {"name": "models", "version": "1", "extensions": []}

    def model_metadata(self, model: str, version: str | None) -> ModelMetadata:
        if model not in self.models:
            raise NotFound(f"there is no model {model}")
        return self.models[model][0]

    def model_config(self, model: str, version: str | None) -> Mapping[str, Any]:
        return {"name": model}

    def statistics(self, model: str | None, version: str | None) -> list[Mapping[str, Any]]:
        return [{"name": name} for name in self.models if model in (None, name)]

    async def repository_index(self, ready_only: bool) -> list[RepositoryEntry]:
        return [RepositoryEntry(name, "1", "READY") for name in self.models]

    async def load_model(self, model: str, parameters: Mapping[str, Any]) -> None:
        self.loaded.append(model)

    async def unload_model(self, model: str, parameters: Mapping[str, Any]) -> None:
        self.loaded.remove(model)

    async def infer(self, request: InferRequest) -> InferResponse:
        metadata, function = self.models[request.model]
        self.asked.append(request)
        try:
            if request.model in self.gates:
                await self.gates[request.model].wait()
        except asyncio.CancelledError:
            self.cancelled.append(request.model)
            raise
        if request.model in self.errors:
            raise self.errors.pop(request.model)
        self.clock.now += self.takes_s.get(request.model, 0.0)
        given = {t.name: t.array for t in request.inputs}
        assert given.keys() == {i.name for i in metadata.inputs}
        for spec, tensor in zip(metadata.inputs, request.inputs, strict=True):
            assert (tensor.datatype, tensor.array.dtype) == (spec.datatype, DATATYPES[spec.datatype])
            assert tensor.array.flags.c_contiguous
        outputs = function(given)
        specs = {o.name: o for o in metadata.outputs}
        return InferResponse(
            request.model, "1", tuple(Tensor(n, specs[n].datatype, a) for n, a in outputs.items()), request.id
        )


def spec(name: str, *shape: int, datatype: str = "FP32") -> TensorSpec:
    return TensorSpec(name, datatype, (-1, *shape))


def mean_model(models: Models, name: str, shape: tuple[int, ...], classes: int) -> None:
    """Answers each row's mean in every class."""

    def means(given: dict[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        x = given["input"]
        mean = x.reshape(len(x), -1).mean(axis=1, keepdims=True)
        return {"logits": np.repeat(mean, classes, axis=1).astype(np.float32)}

    models.add(name, [spec("input", *shape)], [spec("logits", classes)], means)


@pytest.fixture
def models() -> Models:
    found = Models(Clock())
    mean_model(found, "lenet", (1, 28, 28), 10)
    for name in ("resnet50", "googlenet", "vgg16"):
        mean_model(found, name, (3, 224, 224), 1000)

    def find(given: dict[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        """A car in the left half and a person in the right half of every picture that is bright on the left."""
        x = given["pictures"]
        rows = len(x)
        boxes = np.zeros((rows, 20, 4), np.float32)
        scores, labels = np.zeros((rows, 20), np.float32), np.zeros((rows, 20), np.int64)
        boxes[:, 3], boxes[:, 5] = (0, 0, 160, 320), (160, 0, 320, 320)
        scores[:, 3], scores[:, 5] = x[:, 0, :, :160].mean(axis=(1, 2)), 0.9
        labels[:, 3], labels[:, 5] = 3, 1
        return {"boxes": boxes, "scores": scores, "labels": labels}

    outputs = [spec("boxes", 20, 4), spec("scores", 20), spec("labels", 20, datatype="INT64")]
    found.add("ssd", [spec("pictures", 3, 320, 320)], outputs, find)
    found.add("colours", [spec("pictures", 3, 64, 64)], [spec("logits", 4)], find)
    found.add("sharpness", [spec("pictures", 1, 32, 32)], [spec("value", 1)], find)
    return found


def serving(models: Models, *applications: Application) -> ApplicationService:
    return ApplicationService(models, applications, models.clock, lambda: 1e9)


def shipped(name: str) -> Application:
    return read_application(CONFIGS / f"{name}.yaml")


def ask(application: str, picture: NDArray[Any], **more: Any) -> InferRequest:
    return InferRequest(application, (Tensor("picture", "UINT8", picture),), **more)


def values(response: InferResponse) -> dict[str, NDArray[Any]]:
    return {t.name: t.array for t in response.outputs}


# the applications that are shipped


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.yaml")), ids=lambda p: p.name)
def test_every_shipped_application_is_valid_and_fits_its_models(path: Path, models: Models) -> None:
    application = read_application(path)
    assert serving(models).problems(application) == []
    assert pickle.loads(pickle.dumps(application)) == application  # it travels to the front's process
    assert (application.name, read_application(path, "other").name) == (path.stem, "other")


def test_the_papers_rates_and_objectives() -> None:
    """gpu-lets, section 5: game asks LeNet six times and ResNet-50 once, in parallel; traffic in two phases."""
    assert [(m.name, m.rate, m.slo_ms) for m in expand(shipped("game"), 10)] == [
        ("lenet", 60, 95),
        ("resnet50", 10, 95),
    ]
    assert [(m.name, m.rate, m.slo_ms) for m in expand(shipped("traffic"), 10)] == [
        ("ssd", 10, 68), ("googlenet", 10, 68), ("vgg16", 10, 68)
    ]  # fmt: skip


async def test_game_asks_seven_models_at_once(models: Models) -> None:
    picture = np.zeros((2, 100, 200, 3), np.uint8)
    picture[0, 3:11, 4:14] = 255  # digit 1 of the first row
    service = serving(models, shipped("game"))
    models.gates = {"lenet": asyncio.Event(), "resnet50": asyncio.Event()}
    asking = asyncio.create_task(service.infer(ask("game", picture, id="7")))
    while len(models.asked) < 7:
        await asyncio.sleep(0)
    assert not asking.done()  # all seven were asked before one was answered
    for gate in models.gates.values():
        gate.set()
    response = await asking
    assert (response.model, response.version, response.id) == ("game", "1", "7")
    got = values(response)
    assert list(got) == ["digit1", "digit2", "digit3", "digit4", "digit5", "digit6", "scene"]
    assert {a.shape for n, a in got.items() if n != "scene"} == {(2, 10)}
    assert got["scene"].shape == (2, 1000)
    assert got["digit1"][:, 0] == pytest.approx([1, 0], abs=1e-3)
    assert got["digit2"][:, 0] == pytest.approx([0, 0], abs=1e-3)
    assert {r.timeout_us for r in models.asked} == {95_000}


async def test_traffic_looks_at_what_was_found(models: Models) -> None:
    picture = np.zeros((2, 64, 64, 3), np.uint8)
    picture[0, :, :32] = 255  # a car on the left of the first picture
    service = serving(models, shipped("traffic"))
    got = values(await service.infer(ask("traffic", picture)))
    assert got["vehicle_count"].tolist() == [1, 0]
    assert got["person_count"].tolist() == [1, 1]
    assert got["vehicles"].shape == got["people"].shape == (2, 1, 1000)
    assert got["vehicles"][0, 0, 0] > 2
    assert not got["vehicles"][1].any()  # unused
    assert got["people"][:, 0, 0] == pytest.approx([got["people"][0, 0, 0]] * 2)
    assert [(r.model, len(r.inputs[0].array)) for r in models.asked] == [("ssd", 2), ("googlenet", 1), ("vgg16", 2)]


async def test_a_stage_without_cut_outs_asks_no_model(models: Models) -> None:
    service = serving(models, shipped("traffic"))
    got = values(await service.infer(ask("traffic", np.zeros((3, 64, 64, 3), np.uint8))))
    assert got["vehicle_count"].tolist() == [0, 0, 0]
    assert got["vehicles"].shape == (3, 1, 1000)
    assert "googlenet" not in {r.model for r in models.asked}


# time


async def test_time_that_is_left_is_split_by_the_budgets_of_the_stages_to_come(models: Models) -> None:
    models.takes_s = {"ssd": 0.030}
    traffic = shipped("traffic")
    service = serving(models, replace(traffic, budgets={s.name: 102.0 if s.after else 34.0 for s in traffic.stages}))
    picture = np.full((1, 64, 64, 3), 255, np.uint8)
    await service.infer(ask("traffic", picture, priority=2))
    # 136 ms in two stages: a quarter for the first, and at most a quarter of the other 102; it took 30 of its 34, so
    # 106 are left for the last.
    assert [r.timeout_us for r in models.asked] == [59_500, 106_000, 106_000]
    assert {r.priority for r in models.asked} == {2}


async def test_a_requests_own_timeout_can_only_shorten(models: Models) -> None:
    service = serving(models, shipped("game"))
    for timeout_us, wanted in ((40_000, 40_000), (500_000, 95_000)):
        models.asked.clear()
        await service.infer(ask("game", np.zeros((1, 8, 8, 3), np.uint8), timeout_us=timeout_us))
        assert {r.timeout_us for r in models.asked} == {wanted}


async def test_a_late_answer_is_given_and_counted_and_no_time_left_is_a_drop(models: Models) -> None:
    service = serving(models, shipped("traffic"))
    picture = np.full((1, 64, 64, 3), 255, np.uint8)
    models.takes_s = {"vgg16": 0.2}
    await service.infer(ask("traffic", picture))
    models.takes_s = {"ssd": 0.2}
    with pytest.raises(DeadlineMissed, match=r"traffic, stage (vehicle|person): no time is left of 136 ms"):
        await service.infer(ask("traffic", picture))
    (t,) = service.traffic()
    assert (t.arrived, t.answered, t.late, t.dropped, t.running) == (2, 1, 1, 1, 0)
    assert t.latency_ms == pytest.approx((200, 200, 200))


# what goes wrong in a stage


@pytest.mark.parametrize(
    ("error", "kind", "counted"),
    [
        (DeadlineMissed("too late", "ask for less"), DeadlineMissed, "dropped"),
        (Overloaded("full"), Overloaded, "rejected"),
        (Unavailable("executor lost"), Unavailable, "failed"),
        (NotFound("unloaded"), Unavailable, "failed"),
    ],
)
async def test_a_stages_error_ends_the_others_and_names_it(
    models: Models, error: MagpieError, kind: type[MagpieError], counted: str
) -> None:
    service = serving(models, shipped("game"))
    models.errors["resnet50"] = error
    models.gates["lenet"] = asyncio.Event()  # the digits would take for ever
    with pytest.raises(kind, match=r"game, stage scene: ") as raised:
        await service.infer(ask("game", np.zeros((1, 8, 8, 3), np.uint8)))
    assert error.message in str(raised.value)
    assert error.hint in str(raised.value)
    assert models.cancelled == ["lenet"] * 6
    (t,) = service.traffic()
    assert (t.arrived, t.answered, t.running, t.violations) == (1, 0, 0, 1)
    assert getattr(t, counted) == 1
    (entry,) = service.statistics("game", None)
    assert entry["inference_stats"]["fail"]["count"] == 1


async def test_a_client_that_goes_away_takes_its_stages_along(models: Models) -> None:
    service = serving(models, shipped("game"))
    models.gates = {"lenet": asyncio.Event(), "resnet50": asyncio.Event()}
    asking = asyncio.create_task(service.infer(ask("game", np.zeros((1, 8, 8, 3), np.uint8))))
    while len(models.asked) < 7:
        await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert sorted(models.cancelled) == ["lenet"] * 6 + ["resnet50"]
    (t,) = service.traffic()
    assert (t.cancelled, t.failed, t.violations, t.running) == (1, 0, 0, 0)


@pytest.mark.parametrize(
    ("picture", "more", "says"),
    [
        (np.zeros((1, 8, 8, 4), np.uint8), {}, r"inputs\[picture\].shape"),
        (np.zeros((8, 8, 3), np.uint8), {}, r"inputs\[picture\].shape"),
        (np.zeros((0, 8, 8, 3), np.uint8), {}, "at least one row"),
        (np.zeros((1, 0, 8, 3), np.uint8), {}, "picture: "),
        (np.zeros((1, 8, 8, 3), np.uint8), {"outputs": ("digit9",)}, "digit9"),
        (np.zeros((1, 8, 8, 3), np.uint8), {"timeout_us": -1}, r"parameters\.timeout"),
    ],
)
async def test_a_clients_mistakes_are_its_own(
    models: Models, picture: NDArray[Any], more: dict[str, Any], says: str
) -> None:
    with pytest.raises(InvalidValue, match=says):
        await serving(models, shipped("game")).infer(ask("game", picture, **more))
    assert not models.asked


async def test_wrong_names_types_and_versions_are_refused(models: Models) -> None:
    service = serving(models, shipped("game"))
    x = np.zeros((1, 8, 8, 3), np.uint8)
    tensors: list[tuple[Tensor, ...]] = [
        (),
        (Tensor("pictures", "UINT8", x),),
        (Tensor("picture", "FP32", x.astype(np.float32)),),
        (Tensor("picture", "UINT8", x), Tensor("picture", "UINT8", x)),
    ]
    for inputs in tensors:
        with pytest.raises(InvalidValue, match="inputs"):
            await service.infer(InferRequest("game", inputs))
    with pytest.raises(NotFound, match="no version 2"):
        await service.infer(ask("game", x, version="2"))
    with pytest.raises(NotFound, match="no version 2"):
        service.model_metadata("game", "2")
    assert (await service.infer(ask("game", x, version="1", outputs=("scene",)))).outputs[0].name == "scene"


# a graph in general

SUM = {"platform": "pipeline", "slo_ms": 100, "inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, 2]}]}


def adding(stages: list[list[int]]) -> Application:
    """Stage n adds 1 to the sum of the stages that it names (none: of x)."""
    described = [
        {"name": f"s{n}", "model": f"add{max(1, len(before))}",
         "inputs": {f"a{k}": f"s{b}.y" for k, b in enumerate(before)} or {"a0": "x"}}
        for n, before in enumerate(stages)
    ]  # fmt: skip
    outputs = [
        {"name": f"y{n}", "datatype": "FP32", "shape": [-1, 2], "from": f"s{n}.y"} for n in range(len(stages))
    ]  # fmt: skip
    return parse_application("sum", {**SUM, "stages": described[::-1], "outputs": outputs})


@given(st.data())
@settings(max_examples=40)
async def test_any_graph_computes_what_it_says(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 7))
    stages = [data.draw(st.lists(st.integers(0, n - 1), unique=True)) if n else [] for n in range(count)]
    models = Models(Clock())
    for k in range(1, 8):

        def add(given: dict[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
            return {"y": np.asarray(sum(given.values()) + 1, np.float32)}

        models.add(f"add{k}", [spec(f"a{n}", 2) for n in range(k)], [spec("y", 2)], add)
    x = np.array([[1, 2], [3, 4], [5, 6]], np.float32)
    application = adding(stages)
    service = serving(models, application)
    assert service.problems(application) == []
    got = values(await service.infer(InferRequest("sum", (Tensor("x", "FP32", x),))))
    expected: list[NDArray[Any]] = []
    for before in stages:
        expected.append(sum((expected[b] for b in before), start=np.zeros_like(x)) + 1 if before else x + 1)
    for n, wanted in enumerate(expected):
        np.testing.assert_allclose(got[f"y{n}"], wanted)
    assert len(models.asked) == count
    assert {r.timeout_us for r in models.asked} == {100_000}, "nothing is planned: all the time that is left"
    stages = {t.stage: t for t in service.stage_traffic()}
    assert {(t.requests, t.answered, t.rows, t.fan_out) for t in stages.values()} == {(1, 1, 3, 1.0)}
    assert {t.requests for t in service.stage_traffic()} == {0}, "counts begin anew"


@given(st.data())
@settings(max_examples=40)
async def test_a_stage_gets_its_budgets_part_of_the_time_that_is_left(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 6))
    before = [data.draw(st.lists(st.integers(0, n - 1), unique=True)) if n else [] for n in range(count)]
    plain = adding(before)
    weights = {s.name: data.draw(st.integers(1, 50)) for s in plain.stages}
    longest = max(replace(plain, slo_ms=1e9, budgets={k: float(v) for k, v in weights.items()}).rest_ms.values())
    budgets = {name: plain.slo_ms * weight / longest for name, weight in weights.items()}
    application = replace(plain, budgets=budgets)
    clock = Clock()
    models = Models(clock)
    for k in range(1, 8):
        models.add(f"add{k}", [spec(f"a{n}", 2) for n in range(k)], [spec("y", 2)], lambda given: {"y": given["a0"]})
    service = serving(models, application)
    await service.infer(InferRequest("sum", (Tensor("x", "FP32", np.zeros((1, 2), np.float32)),)))
    parts = {n: budgets[n] / application.rest_ms[n] for n in budgets}
    assert {n: application.part_of_rest(n) for n in budgets} == pytest.approx(parts)
    # It is given up where it has also used a quarter of what is kept for the stages behind it.
    allowed = sorted(round(plain.slo_ms * 1000 * (part + (1 - part) / 4)) for part in parts.values())
    assert sorted(r.timeout_us for r in models.asked) == pytest.approx(allowed, abs=1)
    assert max(application.rest_ms.values()) == pytest.approx(plain.slo_ms)


@pytest.mark.parametrize(
    ("budgets", "path"),
    [
        ({"s0": 40.0}, "budgets"),
        ({"s0": 40.0, "s1": 0.0}, "budgets[s1]"),
        ({"s0": 60.0, "s1": 50.0}, "budgets[s0]"),
    ],
)
def test_budgets_that_are_refused(budgets: dict[str, float], path: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        replace(adding([[], [0]]), slo_ms=100.0, budgets=budgets)
    assert refused.value.path == path


# before requests


def test_what_does_not_fit_its_models_is_said(models: Models) -> None:
    service = serving(models)
    value = yaml.safe_load((CONFIGS / "traffic.yaml").read_text())

    def problems(change: Callable[[dict[str, Any]], None]) -> str:
        changed = copy.deepcopy(value)
        change(changed)
        return "; ".join(service.problems(parse_application("traffic", changed)))

    assert problems(lambda v: None) == ""
    assert "stage find: there is no model sdd" in problems(lambda v: v["stages"][0].update(model="sdd"))
    renamed = problems(lambda v: v["stages"][1].update(inputs={"image": v["stages"][1]["inputs"]["input"]}))
    assert "the input input of model googlenet gets nothing" in renamed
    assert "has no input image (it has input)" in renamed
    missing = problems(lambda v: v["outputs"][0].update({"from": "find.box"}))
    assert "output boxes: find has no output box (it has boxes, scores, labels)" in missing
    assert "find.labels is INT64, not INT32" in problems(lambda v: v["outputs"][2].update(datatype="INT32"))
    models.not_ready.add("vgg16")
    assert problems(lambda v: None) == "stage person: model vgg16 is not ready"


async def test_readiness_index_metadata_and_statistics(models: Models) -> None:
    service = serving(models, shipped("game"), shipped("traffic"))
    assert service.ready()
    assert service.live()
    assert service.model_ready("game", None)
    assert service.model_ready("lenet", None)
    models.not_ready.add("vgg16")
    assert (service.model_ready("game", None), service.model_ready("traffic", "1")) == (True, False)
    assert not service.ready()
    index = {e.name: (e.state, e.reason) for e in await service.repository_index(False)}
    assert index["game"] == ("READY", "")
    assert index["traffic"] == ("UNAVAILABLE", "stage person: model vgg16 is not ready")
    assert "traffic" not in {e.name for e in await service.repository_index(True)}
    metadata = service.model_metadata("traffic", None)
    assert (metadata.platform, metadata.versions) == ("pipeline", ("1",))
    assert [o.name for o in metadata.outputs][:3] == ["boxes", "scores", "labels"]
    config = service.model_config("traffic", None)
    steps = config["ensemble_scheduling"]["step"]
    assert [s["model_name"] for s in steps] == ["ssd", "googlenet", "vgg16"]
    assert steps[1]["output_map"] == {"logits": "vehicles", "count": "vehicle_count"}
    assert config["parameters"]["slo_ms"]["string_value"] == "136"
    await service.infer(ask("game", np.zeros((5, 8, 8, 3), np.uint8)))
    (entry,) = service.statistics("game", None)
    assert (entry["inference_count"], entry["execution_count"], entry["last_inference"]) == (5, 1, 10**12)
    assert [e["name"] for e in service.statistics(None, None)][-2:] == ["game", "traffic"]
    with pytest.raises(NotFound):
        service.model_metadata("chess", None)


async def test_what_is_no_application_passes_through(models: Models) -> None:
    service = serving(models, shipped("game"))
    x = np.ones((2, 1, 28, 28), np.float32)
    response = await service.infer(InferRequest("lenet", (Tensor("input", "FP32", x),), id="a"))
    assert (response.model, response.id) == ("lenet", "a")
    assert service.model_config("lenet", None) == {"name": "lenet"}
    assert service.server_metadata()["name"] == "models"
    await service.load_model("lenet", {})
    await service.load_model("vgg16", {})
    await service.unload_model("lenet", {})
    assert models.loaded == ["vgg16"]


async def test_applications_change_while_requests_run(models: Models) -> None:
    service = serving(models, shipped("game"))
    models.gates["resnet50"] = asyncio.Event()
    asking = asyncio.create_task(service.infer(ask("game", np.zeros((1, 8, 8, 3), np.uint8))))
    while not models.asked:
        await asyncio.sleep(0)
    service.apply([shipped("traffic")])
    (game, traffic) = service.traffic()
    assert (game.model, game.running, traffic.model) == ("game", 1, "traffic")
    models.gates["resnet50"].set()
    assert len((await asking).outputs) == 7
    assert [(t.model, t.arrived, t.answered, t.running) for t in service.traffic()] == [
        ("game", 0, 1, 0),
        ("traffic", 0, 0, 0),
    ]
    assert [t.model for t in service.traffic()] == ["traffic"]
    with pytest.raises(NotFound):
        service.model_metadata("game", None)


async def test_another_model_answers_a_stage_from_the_next_request_on(models: Models) -> None:
    """The request that runs goes on with the model that it has asked."""
    vector = TensorSpec("x", "FP32", (-1, 2))
    for name, factor in (("large", 2.0), ("small", 3.0)):
        models.add(name, [vector], [vector], lambda given, factor=factor: {"x": given["x"] * np.float32(factor)})
    tensor = {"datatype": "FP32", "shape": [-1, 2]}
    described = {
        "platform": "pipeline",
        "slo_ms": 100,
        "inputs": [{"name": "x", **tensor}],
        "outputs": [{"name": "y", "from": "read.x", **tensor}],
        "stages": [
            {"name": "read", "model": "large", "accuracy": 0.9, "inputs": {"x": "x"},
             "alternatives": [{"model": "small", "accuracy": 0.8}]},
        ],
    }  # fmt: skip
    application = parse_application("reader", described)
    service = serving(models, application)
    one = InferRequest("reader", (Tensor("x", "FP32", np.ones((1, 2), np.float32)),))
    models.gates["large"] = asyncio.Event()
    asking = asyncio.create_task(service.infer(one))
    while not models.asked:
        await asyncio.sleep(0)
    service.apply([application.choosing({"read": "small"})])
    assert values(await service.infer(one))["y"].tolist() == [[3.0, 3.0]]
    models.gates["large"].set()
    assert values(await asking)["y"].tolist() == [[2.0, 2.0]]
    (stage,) = service.stage_traffic()
    assert (stage.model, stage.requests) == ("small", 2)


async def test_large_pictures_are_worked_on_beside_the_event_loop(models: Models) -> None:
    service = serving(models, shipped("game"))
    small = await service.infer(ask("game", np.full((1, 50, 50, 3), 99, np.uint8)))
    large = await service.infer(ask("game", np.full((1, 1080, 1920, 3), 99, np.uint8)))
    for name, array in values(small).items():
        np.testing.assert_allclose(values(large)[name], array, atol=1e-4)
    service.close()
    service.close()


async def test_models_that_break_their_word_are_the_servers_fault(models: Models) -> None:
    service = serving(models, shipped("game"))
    metadata, _ = models.models["resnet50"]
    wrong: list[tuple[Mapping[str, NDArray[Any]], str]] = [
        ({"logits": np.zeros((1, 999), np.float32)}, r"declared is FP32 \[-1, 1000\]"),
        ({"logits": np.zeros((1, 1000), np.float64)}, "float64"),
        ({"logits": np.zeros((3, 1000), np.float32)}, "has 3 rows"),
        ({}, "gives nothing"),
    ]
    for outputs, says in wrong:
        models.models["resnet50"] = (metadata, lambda given, outputs=outputs: outputs)  # type: ignore[misc]
        with pytest.raises(Unavailable, match=says):
            await service.infer(ask("game", np.zeros((1, 8, 8, 3), np.uint8)))
    assert service.traffic()[0].failed == 4
