"""`magpie load`: send requests to a server of the Open Inference Protocol v2 as a site would, and report."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edge.core.errors import InvalidValue, StoreError
from edge.ingest.secrets import resolve_secret

if TYPE_CHECKING:
    from edge.load.report import LoadReport
    from edge.load.run import LoadProgress
    from edge.load.spec import LoadSpec

HELP = "send load to served models, and report latencies and violations"
#: The exit code where more requests were violated than --max-violation allows.
VIOLATED = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`load [URL] --model NAME:RATE[:SLO_MS] ... | --from FILE`."""
    add = parser.add_argument
    add("url", nargs="?", metavar="URL", help="the server (http://127.0.0.1:8000)")
    add("--from", dest="file", metavar="FILE", help="a scenario (YAML or JSON); other arguments win over it")
    add(
        "--model",
        action="append",
        default=[],
        metavar="NAME:RATE[:SLO_MS]",
        help="requests per second (or `recorded`), each to be answered within SLO_MS; may be repeated",
    )
    add(
        "--arrivals",
        metavar="KIND",
        help="poisson, bursty[:BURSTINESS[:BURST_S]] or recorded:FILE, for each --model (poisson)",
    )
    add("--wave", metavar="WAVE", help="sine:PERIOD_S:DEPTH or steps:SECOND=FACTOR,..., times the rate")
    add("--duration", type=float, metavar="S", help="seconds (60)")
    add("--warm-up", type=float, metavar="S", help="seconds before that which do not count (0)")
    add("--seed", type=int, metavar="N", help="the same seed sends the same requests at the same times (0)")
    add("--rows", type=int, metavar="N", help="rows of data in each request (1)")
    add("--send-timeout", action="store_true", help="tell the server each request's SLO as its timeout")
    add("--shape", action="append", default=[], metavar="MODEL:TENSOR=AxB", help="sizes that a model leaves open")
    add("--input", action="append", default=[], metavar="MODEL:TENSOR=FILE", help="rows from a .npy file")
    add("--token-from", metavar="REF", default="", help="env:NAME or file:/path[#key] of an API token")
    add("--report", metavar="FILE", help="write the report there as JSON (magpie-load/1)")
    add("--max-violation", type=float, metavar="PERCENT", help=f"exit with {VIOLATED} if more requests are violated")
    add("--quiet", action="store_true", help="no progress")


def run(args: argparse.Namespace) -> int:
    """Send, print the table, write the report. Raises MagpieError before anything is sent."""
    spec = load_spec(args)
    limit = args.max_violation
    if limit is not None and not 0 <= limit <= 100:
        raise InvalidValue("--max-violation", limit, "a percentage from 0 to 100")
    report_path = Path(args.report) if args.report else None
    if report_path is not None and not report_path.resolve().parent.is_dir():
        raise StoreError(f"{report_path}: there is no such folder")
    token = resolve_secret(args.token_from, "--token-from").reveal()
    report = asyncio.run(_send(spec, args.quiet, token))
    sys.stdout.write(report.table() + "\n")
    if report_path is not None:
        try:
            report_path.write_text(json.dumps(report.to_json(), indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise StoreError(f"{report_path}: cannot be written: {error.strerror}") from error
    return VIOLATED if limit is not None and 100 * report.violation_ratio > limit else 0


def load_spec(args: argparse.Namespace) -> LoadSpec:
    """The run that the arguments describe. Raises InvalidValue, InvalidValues, NotFound."""
    from edge.load.spec import parse_load, read_load

    value: dict[str, Any] = read_load(Path(args.file)) if args.file else {}
    folder = value.pop("folder", Path.cwd())
    given = {
        "url": args.url,
        "duration_s": args.duration,
        "warm_up_s": args.warm_up,
        "seed": args.seed,
    }
    value |= {key: v for key, v in given.items() if v is not None}
    models = [_model(text) for text in args.model]
    if models:
        value["models"] = models
    if not value.get("models"):
        raise InvalidValue("--model", None, "at least one NAME:RATE[:SLO_MS], or a scenario by --from")
    if not isinstance(value["models"], list) or not all(isinstance(m, dict) for m in value["models"]):
        raise InvalidValue("models", value["models"], "a list of models")
    for model in value["models"]:
        if args.arrivals is not None:
            model["arrivals"] = _arrivals(args.arrivals)
        if args.wave is not None:
            model["wave"] = _wave(args.wave)
        if args.rows is not None:
            model["rows"] = args.rows
        if args.send_timeout:
            model["send_timeout"] = True
    for option, field, texts in (("--shape", "shapes", args.shape), ("--input", "inputs", args.input)):
        for text in texts:
            name, tensor, right = _assignment(option, text)
            found = [m for m in value["models"] if m.get("name") == name]
            if not found:
                names = ", ".join(str(m.get("name")) for m in value["models"])
                raise InvalidValue(option, text, f"a model under load: {names}")
            sizes = [_number(option, size) for size in right.split("x")] if field == "shapes" else None
            for model in found:
                known = model.setdefault(field, {})
                if not isinstance(known, dict):
                    raise InvalidValue(f"models.{name}.{field}", known, "tensors by their names")
                known[tensor] = sizes if sizes is not None else str(Path(right).absolute())
    return parse_load(value, folder)


def _model(text: str) -> dict[str, Any]:
    name, *rest = text.split(":")
    if not name or not 1 <= len(rest) <= 2:
        raise InvalidValue("--model", text, "NAME:RATE or NAME:RATE:SLO_MS")
    model: dict[str, Any] = {"name": name}
    if rest[0] != "recorded":
        model["rate"] = _number("--model", rest[0])
    if len(rest) == 2:
        model["slo_ms"] = _number("--model", rest[1])
    return model


def _arrivals(text: str) -> dict[str, Any]:
    kind, _, rest = text.partition(":")
    if kind == "poisson" and not rest:
        return {"kind": kind}
    if kind == "recorded" and rest:
        return {"kind": kind, "file": str(Path(rest).absolute())}
    parts = rest.split(":") if rest else []
    if kind == "bursty" and len(parts) <= 2:
        names = ("burstiness", "burst_s")
        return {"kind": kind, **{n: _number("--arrivals", p) for n, p in zip(names, parts, strict=False)}}
    raise InvalidValue("--arrivals", text, "poisson, bursty[:BURSTINESS[:BURST_S]] or recorded:FILE")


def _wave(text: str) -> dict[str, Any]:
    kind, _, rest = text.partition(":")
    parts = rest.split(":")
    if kind == "sine" and len(parts) == 2:
        return {"kind": kind, "period_s": _number("--wave", parts[0]), "depth": _number("--wave", parts[1])}
    if kind == "steps" and rest:
        pairs = [step.split("=") for step in rest.split(",")]
        if all(len(pair) == 2 for pair in pairs):
            return {"kind": kind, "steps": [[_number("--wave", part) for part in pair] for pair in pairs]}
    raise InvalidValue("--wave", text, "sine:PERIOD_S:DEPTH or steps:SECOND=FACTOR,SECOND=FACTOR,...")


def _assignment(option: str, text: str) -> tuple[str, str, str]:
    left, equals, right = text.partition("=")
    model, colon, tensor = left.partition(":")
    if not (equals and colon and model and tensor and right):
        raise InvalidValue(option, text, "MODEL:TENSOR=VALUE")
    return model, tensor, right


def _number(option: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidValue(option, text, "a number") from None


async def _send(spec: LoadSpec, quiet: bool, token: str) -> LoadReport:
    from edge.load.run import run_load

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def end() -> None:
        stop.set()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)  # the second one ends it without waiting for answers

    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, end)
    return await run_load(spec, None if quiet or not sys.stderr.isatty() else _show, stop, token)


def _show(progress: LoadProgress) -> None:
    counts = f"{progress.due} due  {progress.answered} answered  {progress.in_flight} under way"
    sys.stderr.write(f"\r{progress.at_s:7.1f} s  {counts} \x1b[K")
    sys.stderr.flush()
