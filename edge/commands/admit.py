"""`magpie admit`: would a camera, a model or an application fit, and at which cost to the others? Nothing is added.

Either of a running appliance (`--url`), or of a box described in a file: its models, its device table, its cameras.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from edge.commands.plan import read_json
from edge.commands.remote import remote_of
from edge.core import checks
from edge.core.errors import InvalidValue, Unavailable
from edge.core.fields import mapping, number, required
from edge.core.serving import DeviceTable, ServedModel, ServingProblem
from edge.core.shares import ideal_caps
from edge.core.window import PROBLEM_FORMAT as WINDOW_FORMAT
from edge.core.window import StreamProblem, WindowProblem
from edge.serving.pipeline_files import described_application, read_description
from scheduler.admission import (
    Admission,
    Box,
    CameraCandidate,
    Candidate,
    PipelineCandidate,
    ServingPlanner,
    admit,
    camera_like,
)
from scheduler.follow import followed_policy
from scheduler.gpulets.pipelines import PipelineDemand
from scheduler.gpulets.policies import DEFAULT_SERVING_POLICY, SERVING_POLICIES, serving_policy
from scheduler.joint.split_policies import DEFAULT_SPLIT_POLICY, SPLIT_POLICIES, split_policy
from scheduler.policies import DEFAULT_POLICY, WINDOW_POLICIES

HELP = "say whether a camera, a model or an application would fit, before it is added"
FORMAT = "admission/1"
#: Where there is room for the candidate in its tenant.
_WITHIN = {
    "entitlement": "within its {entitlement:.2f} by right; share {held:.2f} -> {share_after:.2f}",
    "spare": "with what others leave beyond its {entitlement:.2f} by right; share {held:.2f} -> {share_after:.2f}",
    "none": "no room; it may have {room:.2f}",
}
_ANSWER = {"kind", "candidate", "admitted", "reasons", "yields", "models", "cameras"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`admit FILE`, or `admit --url URL (--model NAME --rate R --slo-ms MS | --camera ID | --pipeline WHICH)`."""
    parser.add_argument("file", nargs="?", metavar="FILE", help="a box and a candidate (admission/1, JSON), or -")
    parser.add_argument("--url", metavar="URL", help="ask a running appliance, e.g. http://127.0.0.1:8080")
    parser.add_argument(
        "--token-from", default="", metavar="REF", help="with --url: env:NAME or file:/path[#key] with an API token"
    )
    parser.add_argument("--model", metavar="NAME", help="with --url: a model")
    parser.add_argument(
        "--pipeline",
        metavar="WHICH",
        help="with --url: an application, by its model.yaml or, if it is served, its name (--rate, --slo-ms: others)",
    )
    parser.add_argument("--rate", type=float, metavar="R", help="its requests per second")
    parser.add_argument("--slo-ms", type=float, metavar="MS", help="each of them is answered within it")
    parser.add_argument("--priority", type=int, default=0, metavar="N", help="lower yields first (default 0)")
    parser.add_argument("--table", metavar="FILE", help="device table with the model's latencies (magpie profile)")
    parser.add_argument("--camera", metavar="ID", help="with --url: a camera")
    parser.add_argument("--like", metavar="ID", help="a camera that it will be like")
    parser.add_argument(
        "--policy", choices=sorted(SERVING_POLICIES), help="with --url: plan by this one instead of the one in force"
    )
    parser.add_argument(
        "--split", choices=sorted(SPLIT_POLICIES), help="with --url: divide objectives over stages in this way instead"
    )
    parser.add_argument(
        "--tenant",
        metavar="ID",
        help="with --url: the tenant that it would belong to (absent: the one that has it, else the default tenant)",
    )
    parser.add_argument("--json", action="store_true", help="the whole answer as JSON")


def run(args: argparse.Namespace) -> int:
    """0: it fits; 3: it does not. Raises MagpieError for bad input and for an appliance that does not answer."""
    if (args.file is None) == (args.url is None):
        raise InvalidValue("FILE, --url", None, "either a file or --url")
    answer = _of_file(args.file) if args.url is None else _of_appliance(args)
    sys.stdout.write(json.dumps(answer, indent=1) + "\n" if args.json else in_words(answer))
    return 0 if answer["admitted"] else 3


def in_words(answer: Mapping[str, Any]) -> str:
    """The answer for people."""
    lines = [f"{answer['kind']} {answer['candidate']}: {'fits' if answer['admitted'] else 'does not fit'}"]
    lines += [f"  {reason['message']}" for reason in answer["reasons"]]
    lines += [f"  yields: {reason['message']}" for reason in answer["yields"]]
    of = answer.get("tenants")
    if of is not None and (answer["admitted"] or of["within"] == "none"):
        lines.append(f"  tenant {of['tenant']}: {_WITHIN[of['within']].format(**of)}")
    for m in answer["models"]:
        before, after = (f"{x:.1f} ms" if x is not None else "not served" for x in (m["before_ms"], m["after_ms"]))
        lines.append(f"  model {m['model']}: worst latency {before} -> {after}, SLO {m['slo_ms']:g} ms")
    for b in answer.get("budgets", ()):
        lines.append(
            f"  stage {b['stage']} ({b['model']}): {b['budget_ms']:.1f} ms, {b['even_ms']:.1f} ms in the even split"
        )
    for c in answer["cameras"]:
        before, after = (f"{100 * x:.1f} %" if x is not None else "-" for x in (c["before"], c["after"]))
        lines.append(f"  camera {c['camera']}: accuracy {before} -> {after}")
    return "\n".join(lines) + "\n"


# -- offline


def _of_file(name: str) -> dict[str, Any]:
    folder = Path.cwd() if name == "-" else Path(name).absolute().parent
    return admission_of(read_json(name), folder).to_json()


def admission_of(value: Any, folder: Path) -> Admission:
    """The answer to "admission/1"; files that it names are taken from `folder`. Raises InvalidValue, NotFound.

    {"format", "capacity", "serving": gpulet-problem/1, "device" | "device_file": gpulet-device/1, "window" |
    "window_file": retrain-infer-window/1, "policy", "split", "window_policy", "cameras_priority", "candidate":
    {"model": {"name", "rate", "slo_ms", "priority"}}, {"camera": {"id", "like"} or a stream of retrain-infer-window/1}
    or {"pipeline": {"name", "description": the content of its model.yaml, "rate", "slo_ms"}}, "pipelines": as many of
    these as are served, what they ask being part of the models' rates}.
    """
    value = mapping(value, "admission")
    checks.one_of("format", value.get("format"), (FORMAT,))
    known = {
        "format", "capacity", "serving", "device", "device_file", "window", "window_file", "policy", "split",
        "window_policy", "cameras_priority", "candidate", "pipelines", "note",
    }  # fmt: skip
    checks.known_keys("", value, known)
    device, window = _part(value, "device", folder), _part(value, "window", folder)
    models: tuple[ServedModel, ...] = ()
    most = None
    if value.get("serving") is not None:
        problem = ServingProblem.from_json(value["serving"])
        if problem.devices != 1:
            raise InvalidValue("serving.devices", problem.devices, "1: admission is asked of one box")
        models, most = problem.models, problem.max_gpulets
    box = Box(
        float(number(value, "capacity", "", 1.0)),
        models,
        None if device is None else DeviceTable.from_json(device),
        None if window is None else WindowProblem.from_json(window),
        int(number(value, "cameras_priority", "", 0)),
        most,
        _served_pipelines(value.get("pipelines")),
    )
    policy, cameras = value.get("policy", DEFAULT_SERVING_POLICY), value.get("window_policy", DEFAULT_POLICY)
    checks.one_of("policy", policy, SERVING_POLICIES)
    planner = ServingPlanner(serving_policy(policy), split_policy(value.get("split", DEFAULT_SPLIT_POLICY)))
    checks.one_of("window_policy", cameras, WINDOW_POLICIES)
    caps = ideal_caps(None if box.window is None else box.window.share_step)
    candidate = _candidate(value, box)
    try:
        return admit(box, candidate, planner, followed_policy(cameras, caps))
    except InvalidValue as error:
        asked = error.path.partition(".")[0] in ("model", "camera", "pipeline")
        path = f"candidate.{error.path}" if asked else error.path
        raise InvalidValue(path, error.given, error.allowed) from None


def _part(value: Mapping[str, Any], key: str, folder: Path) -> Any:
    named = value.get(f"{key}_file")
    if named is None:
        return value.get(key)
    if value.get(key) is not None:
        raise InvalidValue(f"{key}_file", named, f"either {key} or {key}_file")
    if not isinstance(named, str):
        raise InvalidValue(f"{key}_file", named, "a file's name")
    return read_json(str(folder / named))


def _served_pipelines(value: Any) -> tuple[PipelineDemand, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise InvalidValue("pipelines", value, "a list of applications")
    found = tuple(_application(each, f"pipelines[{n}]").demand for n, each in enumerate(value))
    checks.unique("pipelines", [p.application.name for p in found])
    return found


def _application(value: Any, path: str) -> PipelineCandidate:
    given = mapping(value, path)
    checks.known_keys(path, given, {"name", "description", "rate", "slo_ms"})
    name = required(given, "name", path)
    if not isinstance(name, str):
        raise InvalidValue(f"{path}.name", name, "text")
    application = described_application(name, required(given, "description", path), f"{path}.description")
    if given.get("slo_ms") is not None:
        slo_ms = float(number(given, "slo_ms", path))
        checks.positive(f"{path}.slo_ms", slo_ms)
        application = replace(application, slo_ms=slo_ms)
    rate = float(number(given, "rate", path, application.rate))
    checks.in_range(f"{path}.rate", rate, 0.0, 1e9, low_open=True)
    return PipelineCandidate(application, rate)


def _candidate(value: Mapping[str, Any], box: Box) -> Candidate:
    given = mapping(required(value, "candidate", ""), "candidate")
    if len(given) != 1 or next(iter(given)) not in ("model", "camera", "pipeline"):
        raise InvalidValue("candidate", dict(given), '{"model": {...}}, {"camera": {...}} or {"pipeline": {...}}')
    if "pipeline" in given:
        return _application(given["pipeline"], "candidate.pipeline")
    if "model" in given:
        asked = {"models": [given["model"]]}
        try:
            return ServingProblem.from_json(asked).models[0]
        except InvalidValue as error:
            path = error.path.replace("models[0]", "candidate.model")
            raise InvalidValue(path, error.given, error.allowed) from None
    camera = mapping(given["camera"], "candidate.camera")
    if set(camera) <= {"id", "like"}:
        if box.window is None:
            raise InvalidValue(
                "candidate.camera", dict(camera), "a stream of retrain-infer-window/1: no camera is there"
            )
        return camera_like(box.window, str(required(camera, "id", "candidate.camera")), camera.get("like"))
    return CameraCandidate(_stream(camera))


def _stream(camera: Mapping[str, Any]) -> StreamProblem:
    whole = {"format": WINDOW_FORMAT, "num_gpus": 1, "window_s": 1, "streams": [dict(camera)]}
    try:
        return WindowProblem.from_json(whole).streams[0]
    except InvalidValue as error:
        path = error.path.replace("streams[0]", "candidate.camera")
        raise InvalidValue(path, error.given, error.allowed) from None


# -- a running appliance


def _of_appliance(args: argparse.Namespace) -> dict[str, Any]:
    if sum(given is not None for given in (args.model, args.camera, args.pipeline)) != 1:
        raise InvalidValue("--model, --camera, --pipeline", None, "one of the three")
    body: dict[str, Any]
    if args.pipeline is not None:
        body = {"pipeline": _pipeline_body(args)}
    elif args.model is not None:
        for name in ("rate", "slo_ms"):
            if getattr(args, name) is None:
                raise InvalidValue(f"--{name.replace('_', '-')}", None, "a number (it is required with --model)")
        body = {"name": args.model, "rate": args.rate, "slo_ms": args.slo_ms, "priority": args.priority}
        if args.table is not None:
            body["table"] = read_json(args.table)
        body = {"model": body}
    else:
        body = {"camera": {"id": args.camera} | ({} if args.like is None else {"like": args.like})}
    body |= {key: getattr(args, key) for key in ("policy", "split", "tenant") if getattr(args, key) is not None}
    remote = remote_of(args)
    answer = remote.ask("POST", "/admission", body)
    if not isinstance(answer, dict) or not answer.keys() >= _ANSWER:
        raise Unavailable(f"{args.url}: no appliance answers: this is no answer about admission")
    return answer


def _pipeline_body(args: argparse.Namespace) -> dict[str, Any]:
    """The application of a file, or the name of one that is served; with another rate and objective if given."""
    path = Path(args.pipeline)
    body: dict[str, Any] = {"name": args.pipeline}
    if path.suffix in (".yaml", ".yml") or path.is_file():
        name, description = read_description(path)
        described_application(name, description, str(path))
        body = {"name": name, "description": description}
    body |= {key: getattr(args, key) for key in ("rate", "slo_ms") if getattr(args, key) is not None}
    if args.table is not None:
        body["table"] = read_json(args.table)
    return body
