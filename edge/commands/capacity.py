"""`magpie capacity` forecasts the effect of a change of the box on accuracy and latency, and shows past errors.

Of a running appliance (`--url`), which keeps the answer and compares it with what comes; or of a data folder
(`--data DIR`), where nothing is kept and served models are not known.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edge.commands.remote import Remote, add_remote_arguments, remote_of
from edge.commands.simulate import kept_windows, opened_store
from edge.core.capacity import CHANGE_KINDS, BoxChange, StoredForecast
from edge.core.errors import InvalidValue, MagpieError, Unavailable

HELP = "forecast what one more camera, another rate, window or device, or a second box would do"
#: Seconds between two looks at whether the forecast is there, and until none is waited for.
LOOK_S, PATIENCE_S = 2.0, 3600.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`capacity [CHANGE] [--factor F] [--camera ID] [--windows N]`, with `--url` or `--data`."""
    parser.add_argument(
        "change", nargs="?", choices=CHANGE_KINDS, help="without one: the forecasts that were made, with what came"
    )
    parser.add_argument(
        "--factor", type=float, metavar="F", help="of frame_rate (default 2) and device (default 2; 0.5: half of it)"
    )
    parser.add_argument(
        "--camera", metavar="ID", help="the camera that a new one is like, or the only one with another frame rate"
    )
    parser.add_argument("--windows", type=int, default=48, help="the newest closed windows, at most (default 48)")
    add_remote_arguments(parser)
    parser.add_argument("--data", type=Path, metavar="DIR", help="a data folder instead of a running appliance")
    parser.add_argument("--database", metavar="URL", help="with --data: its database, if not the SQLite file in it")
    parser.add_argument("--json", action="store_true", help="the whole answer as JSON")


def run(args: argparse.Namespace, look_s: float = LOOK_S) -> int:
    """An appliance's forecast is looked for every `look_s` seconds. Raises MagpieError for bad input, too few windows,
    and an appliance that does not answer."""
    if args.change is None:
        for name in ("factor", "camera", "data"):
            if getattr(args, name) is not None:
                raise InvalidValue(f"--{name}", str(getattr(args, name)), "nothing, as no CHANGE is named")
        answer = remote_of(args).ask("GET", "/capacity")
        sys.stdout.write(json.dumps(answer, indent=1) + "\n" if args.json else forecasts_in_words(answer))
        return 0
    change = BoxChange.of(args.change, args.factor, args.camera)
    made = _asked(remote_of(args), change, args.windows, look_s) if args.data is None else _of_folder(args, change)
    sys.stdout.write(json.dumps(made, indent=1) + "\n" if args.json else in_words(made))
    return 0


def _asked(remote: Remote, change: BoxChange, windows: int, look_s: float) -> dict[str, Any]:
    """Ask, and wait for the forecast."""
    body: dict[str, Any] = {"kind": change.kind, "factor": change.factor, "windows": windows}
    if change.camera is not None:
        body["camera"] = change.camera
    before = {f["id"] for f in remote.ask("GET", "/capacity")["forecasts"]}
    answer = remote.ask("POST", "/capacity", body)
    until_s = time.monotonic() + PATIENCE_S
    while answer["working"] is not None:
        if time.monotonic() > until_s:
            raise Unavailable(f"no forecast came within {PATIENCE_S:.0f} s")
        time.sleep(look_s)
        answer = remote.ask("GET", "/capacity")
    made = [f for f in answer["forecasts"] if f["id"] not in before]
    if not made:
        raise MagpieError((answer["failed"] or {}).get("message") or "the forecast was not made")
    return dict(made[0])


def _of_folder(args: argparse.Namespace, change: BoxChange) -> dict[str, Any]:
    from edge.appliance.answers.capacity import ForecastAnswer
    from edge.appliance.answers.read import plain
    from edge.appliance.capacity import came_of, forecast_answer, last_budget
    from edge.simulation.capacity import CapacityQuestion, forecast

    with opened_store(args.data, args.database) as store:
        details = tuple(kept_windows(store, args.windows))
        past, began = came_of(store), store.windows.first_windows()
        question = CapacityQuestion(change, details, last_budget(store), past=past, began=began)
    found = forecast(question)
    return dict(plain(ForecastAnswer, forecast_answer(StoredForecast(0, time.time(), "", found))))


def in_words(made: Mapping[str, Any]) -> str:
    """A forecast for people."""
    change = made["change"]["words"]
    lines = [
        f"{change}, from {made['windows']} windows: cameras have {100 * made['share_now']:.0f} % of the device now, "
        f"{100 * made['share_then']:.0f} % then"
    ]
    for c in made["cameras"]:
        now = "-" if c["now"] is None else f"{100 * c['now']:.1f} %"
        t = c["then"]
        box = "" if c["box"] == 1 else ", on the second box"
        without = "" if c["unchanged"] is None else f", {100 * c['unchanged']:.1f} % then without the change"
        lines.append(
            f"  camera {c['camera']}: accuracy {now} -> {100 * t['value']:.1f} % ({100 * t['low']:.1f} to "
            f"{100 * t['high']:.1f}){without}{box}"
        )
    for m in made["models"]:
        now = "not served" if m["now_ms"] is None else f"{m['now_ms']:.1f} ms"
        t = m["then_ms"]
        then = "not served" if t is None else f"{t['value']:.1f} ms ({t['low']:.1f} to {t['high']:.1f})"
        lines.append(
            f"  model {m['model']}: latency {now} -> {then}, objective {m['slo_ms']:g} ms, served "
            f"{100 * m['now_part']:.0f} % -> {100 * m['then_part']:.0f} % of its rate"
        )
    for n in made["notes"]:
        more = "" if n["of_all"] is None else f". {n['of_all']}"
        lines.append(f"  note: {n['message']}{more}")
    return "\n".join(lines) + "\n"


def forecasts_in_words(answer: Mapping[str, Any]) -> str:
    """The forecasts that were made, for people."""
    if not answer["forecasts"]:
        there, needed = answer["windows"], answer["needed"]
        return f"no forecast was made yet; there are {there} windows to make one from, {needed} are needed\n"
    lines = []
    for f in answer["forecasts"]:
        lines.append(f"{f['change']['words'] or f['change']['kind']} (window {f['last_window']})")
        came = f["outcome"]
        if came is None:
            lines.append("  not made, or not measured yet")
            continue
        for c in came["cameras"]:
            held = "" if c["held"] else ", outside the interval"
            lines.append(
                f"  camera {c['camera']}: {100 * c['forecast']:.1f} % forecast, {100 * c['came']:.1f} % came{held}"
            )
        for m in came["models"]:
            held = "" if m["held"] else ", outside the interval"
            lines.append(f"  model {m['model']}: {m['forecast_ms']:.1f} ms forecast, {m['came_ms']:.1f} ms came{held}")
    return "\n".join(lines) + "\n"
