"""`/metrics`: one snapshot of the appliance (`StateService.metrics`) as Prometheus text. Pure: no state is kept.

Names follow Prometheus' practice: prefix `magpie_`, base units (seconds, bytes, ratios 0-1), `_total` on counters,
`_info` on facts in labels. Served models have Triton's names besides (`nv_inference_*`), so that dashboards made for
Triton work. Labels are ids of cameras and models and small fixed sets: no process ids, no free text, no file names.
Counters begin again when the appliance or a camera's worker is started again, as Prometheus expects of counters.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, get_args

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from edge.core.camera import CameraState
from web.fleet_metrics import box_groups, fleet_jobs, lending
from web.metric_kinds import Json
from web.metric_kinds import counter as _counter
from web.metric_kinds import gauge as _gauge
from web.metric_kinds import info as _info
from web.metric_kinds import number as _number

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_STATES: Final[tuple[str, ...]] = get_args(CameraState)
_DROPS: Final[Mapping[str, str]] = {
    "frames_damaged": "damaged",
    "frames_replaced": "replaced",
    "packets_dropped": "catching_up",
    "frames_without_answer": "without_answer",
    "frames_lost_in_swaps": "model_swap",
}
_OUTCOMES: Final = ("promoted", "rejected", "stopped", "failed")
_QUANTILES: Final = ("0.5", "0.9", "0.99")
_TRITON: Final[tuple[tuple[str, str, str], ...]] = (
    ("nv_inference_request_duration_us", "success", "Microseconds from a request's arrival to its answer, summed"),
    ("nv_inference_queue_duration_us", "queue", "Microseconds that requests waited, summed"),
    ("nv_inference_compute_input_duration_us", "compute_input", "Microseconds of bringing inputs together, summed"),
    ("nv_inference_compute_infer_duration_us", "compute_infer", "Microseconds of computing the models, summed"),
    ("nv_inference_compute_output_duration_us", "compute_output", "Microseconds of handing outputs over, summed"),
)
_TRITON_SUFFIX: Final = re.compile(rb"^(# (?:HELP|TYPE) nv_[a-z_]+)_total ", re.M)


def render(snapshot: Json) -> bytes:
    """The text of one scrape (Prometheus text format 0.0.4, UTF-8)."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Snapshot(snapshot))
    # Triton's counters have no _total; the library would add it to the names in HELP and TYPE.
    return _TRITON_SUFFIX.sub(rb"\1 ", generate_latest(registry))


class _Snapshot(Collector):
    def __init__(self, snapshot: Json) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Metric]:
        s = self._snapshot
        parts = (
            _appliance(s),
            _cameras(s),
            _truth(s),
            _window(s),
            _retraining(s),
            _shares(s),
            _upkeep(s),
            _alarms(s),
            _outputs(s),
            _serving(s),
            _applications(s),
            _tenants(s),
            lending(s),
            box_groups(s),
            fleet_jobs(s),
            _counted(s),
            _clips(s),
            _triton(s),
        )
        for part in parts:
            for metric in part:
                if metric.samples:
                    yield metric


# Each part gives its families; a family without samples is left out.


def _appliance(s: Json) -> Iterator[Metric]:
    health, overview = s["health"], s["overview"]
    yield _info("magpie_build", "Version of Magpie", [{"version": health["version"], "site": overview["site"]}])
    device = overview["device"]
    yield _info(
        "magpie_device",
        "Device, and how shares of it are enforced",
        [{key: device.get(key) for key in ("device", "kind", "enforced")}],
    )
    yield _gauge("magpie_uptime_seconds", "Since the appliance was started", (), [((), health["uptime_s"])])
    yield _gauge("magpie_ready", "1 while the appliance does its work (as /readyz)", (), [((), health["ready"])])
    codes = Counter(str(reason["code"]) for reason in health["reasons"])
    yield _gauge(
        "magpie_readiness_reasons", "Complaints of /readyz, by code", ("code",),
        [((code,), n) for code, n in sorted(codes.items())],
    )  # fmt: skip
    workers = Counter((str(w["role"]), str(w["state"])) for w in overview["workers"])
    yield _gauge("magpie_workers", "Worker processes by role and state", ("role", "state"), sorted(workers.items()))
    lost = s["counts"]["workers_lost"]
    yield _counter(
        "magpie_worker_losses", "Workers that died or hung and were started again or given up", ("worker",),
        [((kind,), n) for kind, n in sorted(lost.items())],
    )  # fmt: skip
    yield _counter(
        "magpie_worker_losses_by_cause", "The same, by what had happened to it", ("cause",),
        [((cause,), n) for cause, n in sorted(s["counts"]["losses_by_cause"].items())],
    )  # fmt: skip
    yield from _silence(s["counts"]["silence"])
    events = s["counts"]["events"]
    yield _counter(
        "magpie_events", "Journal entries by kind", ("kind",), [((kind,), n) for kind, n in sorted(events.items())]
    )
    losses = overview["losses"]
    yield _counter("magpie_journal_lost", "Events that the journal could not keep", (), [((), losses["journal"])])
    yield _counter(
        "magpie_records_unreadable", "Stored records that this release cannot read, left out of lists", ("kind",),
        [((kind,), n) for kind, n in sorted(s["records_unreadable"].items())],
    )  # fmt: skip
    pictures = s.get("live_pictures", {})
    yield _counter(
        "magpie_live_pictures", "Live pictures that were encoded: none without a watcher", ("camera",),
        [((camera,), n) for camera, n in sorted(pictures.items())],
    )  # fmt: skip
    yield _counter(
        "magpie_live_pictures_lost", "Live pictures that slow watchers missed", (), [((), losses.get("live_pictures"))]
    )


def _cameras(s: Json) -> Iterator[Metric]:
    cameras = [(str(c["id"]), c["state"]) for c in s["overview"]["cameras"]]
    one = ("camera",)

    def gauge(name: str, about: str, part: str, key: str, factor: float = 1.0) -> Metric:
        known = ((c, _number(state[part][key])) for c, state in cameras)
        return _gauge(f"magpie_camera_{name}", about, one, [((c,), v * factor) for c, v in known if v is not None])

    def counter(name: str, about: str, part: str, key: str) -> Metric:
        rows = [((c,), state[part].get(key)) for c, state in cameras]
        return _counter(f"magpie_camera_{name}", about, one, rows)

    yield _gauge(
        "magpie_camera_state", "1 for the state that the camera is in, 0 for the others", ("camera", "state"),
        [((c, name), state["state"] == name) for c, state in cameras for name in _STATES],
    )  # fmt: skip
    yield _info(
        "magpie_camera_model", "Model in force of each camera",
        [{"camera": c, "version": x["model"]["version"], "first": x["model"]["frozen_version"]} for c, x in cameras],
    )  # fmt: skip
    yield gauge("frames_per_second", "Decoded frames per second", "stream", "fps")
    yield gauge("answers_per_second", "Answered frames per second", "inference", "answers_per_s")
    yield gauge("delay_seconds", "Age of the latest frame when it was decoded", "stream", "delay_s")
    yield gauge(
        "inference_latency_seconds", "Mean time of one answer of the camera's model", "inference", "inference_ms", 1e-3
    )
    yield counter("frames_decoded", "Frames that left the decoder", "stream", "frames_decoded")
    yield counter("answers", "Frames that were answered", "inference", "answers")
    yield counter("stale_answers", "Frames that were given the answer of an earlier one", "inference", "stale_answers")
    yield counter("reconnects", "Times that the stream was connected again", "losses", "reconnects")
    yield counter("stalls", "Times that no picture came for the stall time", "connection", "stalls")
    yield counter("freezes", "Times that the same picture came for the stall time", "stream", "freezes")
    yield counter("samples_lost", "Frames that were to be recorded and could not be", "losses", "samples_lost")
    yield _counter(
        "magpie_camera_frames_dropped", "Frames that were not used, by cause", ("camera", "cause"),
        [((c, cause), x["losses"].get(key)) for c, x in cameras for key, cause in _DROPS.items()],
    )  # fmt: skip
    yield from _accuracies(s, cameras)


def _accuracies(s: Json, cameras: list[tuple[str, Json]]) -> Iterator[Metric]:
    one, found = ("camera",), [(c, x["accuracy"]) for c, x in cameras]
    for name, key, about in (
        ("", "realised", "Agreement with the golden model in the last window that was measured"),
        ("frozen_", "frozen", "The same of the camera's first model, never retrained"),
        ("download_", "download", "The same of the published detector that it began as, left alone"),
        ("download_whole_", "download_whole", "The same of the published detector, looking at the whole picture"),
    ):
        yield _gauge(f"magpie_camera_{name}accuracy_ratio", about, one, [((c,), x[key]) for c, x in found])
    gained = [
        ((c,), right - alone)
        for c, x in found
        if (right := _number(x["realised"])) is not None and (alone := _number(x["download"])) is not None
    ]
    yield _gauge("magpie_camera_gained_over_download_ratio", "Accuracy less that of the download", one, gained)
    drift = []
    for c, x in found:
        promised, now = _number(s["expected_accuracy"].get(c)), _number(x["realised"])
        if promised is not None and now is not None:
            drift.append(((c,), promised - now))
    yield _gauge(
        "magpie_camera_drift_ratio",
        "How far accuracy is below what the model in force had on held-out frames when it was promoted",
        one,
        drift,
    )


def _truth(s: Json) -> Iterator[Metric]:
    found = sorted(s.get("truth", {}).items())
    rows = [(c, model, row[model]) for c, row in found for model in ("student", "teacher")]
    for name, key, about in (
        ("", "value", "True accuracy (F1 at IoU 0.5) by people's answers"),
        ("_low", "low", "Lower end of its 90 % interval"),
        ("_high", "high", "Upper end of its 90 % interval"),
    ):
        yield _gauge(
            f"magpie_camera_true_accuracy{name}_ratio", about, ("camera", "model"),
            [((c, model), row[key]) for c, model, row in rows],
        )  # fmt: skip
    for name, key, about in (
        ("answers", "answers", "Answers of people that it rests on"),
        ("contradictions", "contradicted", "Questions that people answered differently"),
        ("window", "window", "Retraining window that it is about"),
    ):
        yield _gauge(f"magpie_camera_true_accuracy_{name}", about, ("camera",), [((c,), r[key]) for c, r in found])
    yield _gauge(
        "magpie_camera_teacher_worse", "1 where the teacher is worse than its student beyond the interval",
        ("camera",), [((c,), r["teacher_worse"]) for c, r in found],
    )  # fmt: skip


def _window(s: Json) -> Iterator[Metric]:
    overview = s["overview"]
    window, plan = overview["window"], overview.get("plan")
    yield _gauge("magpie_window_number", "Number of the running retraining window", (), [((), window["number"])])
    yield _gauge("magpie_window_length_seconds", "Its length", (), [((), window["length_s"])])
    for edge in ("start", "end"):
        yield _gauge(
            f"magpie_window_{edge}_timestamp_seconds", f"Its {edge}, UTC epoch", (), [((), window.get(f"{edge}_utc_s"))]
        )
    yield _info("magpie_window_plan", "Policy and phase", [{"policy": overview["policy"], "phase": window["phase"]}])
    objective = [] if plan is None else [((), plan["objective"])]
    yield _gauge("magpie_window_plan_accuracy_ratio", "Mean accuracy that the plan predicts", (), objective)


def _retraining(s: Json) -> Iterator[Metric]:
    cameras = [str(c["id"]) for c in s["overview"]["cameras"]]
    jobs = {str(j["camera"]): j for j in s["overview"]["jobs"]}
    counts, seconds = s["counts"]["cameras"], s["counts"]["retraining_device_s"]
    one = ("camera",)
    yield _gauge(
        "magpie_retraining_running", "1 while the camera is retrained", one, [((c,), c in jobs) for c in cameras]
    )
    yield _gauge(
        "magpie_retraining_progress_ratio", "How much of the running retraining is done", one,
        [((c,), job.get("fraction")) for c, job in sorted(jobs.items())],
    )  # fmt: skip
    yield _counter(
        "magpie_retraining_started", "Retrainings begun", one,
        [((c,), counts.get(c, {}).get("started", 0)) for c in cameras],
    )  # fmt: skip
    yield _counter(
        "magpie_retraining_outcomes", "How retrainings ended", ("camera", "outcome"),
        [((c, outcome), counts.get(c, {}).get(outcome, 0)) for c in cameras for outcome in _OUTCOMES],
    )  # fmt: skip
    yield _counter(
        "magpie_retraining_device_seconds", "Device time of retrainings that were gated", one,
        [((c,), seconds.get(c, 0.0)) for c in cameras],
    )  # fmt: skip
    yield _counter(
        "magpie_model_rollbacks", "Roll-backs, by people and by itself", one,
        [((c,), counts.get(c, {}).get("rolled_back", 0)) for c in cameras],
    )  # fmt: skip
    labels, waiting = s["overview"]["losses"]["labels"], s["overview"]["losses"].get("labels_waiting")
    yield _counter(
        "magpie_labels", "Frames for the golden model, by what became of them", ("outcome",),
        [((key,), labels.get(key)) for key in ("labelled", "unreadable", "given_up", "missed")],
    )  # fmt: skip
    yield _counter("magpie_labelling_seconds", "Time that the golden model took", (), [((), labels.get("seconds"))])
    yield _gauge("magpie_labels_waiting", "Frames that wait for the golden model", (), [((), waiting)])


def _shares(s: Json) -> Iterator[Metric]:
    overview = s["overview"]
    planned = []
    for camera, share in sorted(overview["shares"].items()):
        planned += [((camera, "inference"), share["inference"]), ((camera, "retraining"), share["retraining"])]
    yield _gauge(
        "magpie_camera_share_ratio", "Share of the device that the plan in force gives", ("camera", "activity"), planned
    )
    kept = {"golden": "golden_share", "profiling": "profiling_share", "control": "control_share"}
    rows = [((name,), overview.get(key)) for name, key in kept.items()]
    yield _gauge("magpie_reserved_share_ratio", "Share that is kept for Magpie's own work", ("activity",), rows)
    # Names of executors count up for ever: shares asked and given are reported by role, and by camera where there is
    # one.
    roles = {str(w["name"]): str(w["role"]) for w in overview["workers"]}
    sums: dict[tuple[str, str], dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for usage in overview["usage"]:
        if not usage.get("running", True):
            continue
        key = (roles.get(str(usage["worker"]), "ended"), usage["camera"] or "")
        for field in ("asked", "granted", "used_share"):
            sums[key][field] += _number(usage.get(field)) or 0.0
    for field, name, about in (
        ("asked", "asked", "Share that workers were to have"),
        ("granted", "granted", "Share that they were given"),
        ("used_share", "used", "Share that they used"),
    ):
        rows_of = [(key, values[field]) for key, values in sorted(sums.items())]
        yield _gauge(f"magpie_worker_share_{name}_ratio", about, ("role", "camera"), rows_of)


def _alarms(s: Json) -> Iterator[Metric]:
    alarms = s["alarms"]
    yield _counter(
        "magpie_alarms", "Alarms that rules raised, by kind of rule", ("kind",),
        [((kind,), n) for kind, n in sorted(alarms["raised"].items())],
    )  # fmt: skip
    yield _gauge(
        "magpie_alarms_active", "Alarms that have not ended, by kind of rule", ("kind",),
        [((kind,), n) for kind, n in sorted(alarms["active"].items())],
    )  # fmt: skip
    yield _counter(
        "magpie_alarms_held_back", "Alarms that quiet hours or a rule's interval kept from being raised", (),
        [((), alarms["held_back"])],
    )  # fmt: skip
    for key, kind, name, about in (
        ("objects", _counter, "magpie_objects", "Objects that were followed"),
        ("objects_now", _gauge, "magpie_objects_present", "Objects that are followed now"),
    ):
        yield kind(name, about, ("camera",), [((camera,), n) for camera, n in sorted(alarms[key].items())])
    yield _counter(
        "magpie_alarm_losses", "Alarms and objects that could not be kept or followed", ("what",),
        [((what,), n) for what, n in sorted(alarms["lost"].items())],
    )  # fmt: skip


def _outputs(s: Json) -> Iterator[Metric]:
    outputs = [(str(o["destination"]), o) for o in s["outputs"]]
    one = ("destination",)
    up = [((name,), o["up"]) for name, o in outputs if o["up"] is not None]
    yield _gauge("magpie_output_up", "1 while the broker or receiver can be reached", one, up)
    for key, name, about in (
        ("waiting", "waiting", "Messages that wait to be delivered"),
        ("waiting_bytes", "waiting_bytes", "Their size"),
        ("dead", "dead_letters", "Messages that were given up and are kept"),
    ):
        yield _gauge(f"magpie_output_{name}", about, one, [((d,), o[key]) for d, o in outputs])
    yield _counter("magpie_output_sent", "Messages that were delivered", one, [((d,), o["sent"]) for d, o in outputs])
    yield _counter(
        "magpie_output_lost", "Messages that will never be delivered, by cause", ("destination", "cause"),
        [((d, cause), n) for d, o in outputs for cause, n in sorted(o["lost_by"].items())],
    )  # fmt: skip


def _upkeep(s: Json) -> Iterator[Metric]:
    disk, retention = s["disk"], s["counts"]["retention"]
    yield _gauge("magpie_disk_free_bytes", "Free on the data folder's disk", (), [((), disk["free_bytes"])])
    yield _gauge("magpie_disk_size_bytes", "Size of the data folder's disk", (), [((), disk["total_bytes"])])
    deleted = retention["deleted"]
    yield _counter(
        "magpie_retention_deleted", "Items that retention deleted", ("what",),
        [((k,), deleted.get(k, 0)) for k in ("events", "windows", "picture_sets", "versions", "blobs")],
    )  # fmt: skip
    yield _counter("magpie_retention_freed_bytes", "Bytes that it freed", (), [((), deleted.get("bytes", 0))])
    yield _counter(
        "magpie_retention_failures", "Items that it could not delete, tried again next time", (),
        [((), deleted.get("failures", 0))],
    )  # fmt: skip
    yield _gauge(
        "magpie_data_bytes", "Pictures and models kept, at the last retention", (), [((), retention["bytes_kept"])]
    )
    yield _gauge(
        "magpie_data_over_limit_bytes", "Bytes above the limit that may not go", (), [((), retention["bytes_over"])]
    )


def _silence(silence: Mapping[str, Any]) -> Iterator[Metric]:
    yield _gauge(
        "magpie_control_silence_longest_seconds", "Longest time in which the control loop did nothing else", ("of",),
        [(("start",), silence["longest_s"]), (("hour",), silence["longest_in_hour_s"])],
    )  # fmt: skip
    yield _counter(
        "magpie_control_silences",
        "Silences of the control loop of more than a second",
        (),
        [((), silence["count"])],
    )
    yield _counter("magpie_control_silence_seconds", "Their seconds", (), [((), silence["seconds"])])


def _applications(s: Json) -> Iterator[Metric]:
    if s["serving"] is None:
        return
    labels = ("application", "stage")
    stages = [((a["name"], e["name"]), e) for a in s["serving"].get("applications") or () for e in a["stages"]]
    budgets = [(key, None if e["budget_ms"] is None else e["budget_ms"] / 1e3) for key, e in stages]
    yield _gauge("magpie_serving_stage_budget_seconds", "Budget of the stage in the plan in force", labels, budgets)
    planned = [(key, None if e["planned_ms"] is None else e["planned_ms"] / 1e3) for key, e in stages]
    yield _gauge("magpie_serving_stage_planned_seconds", "Longest time of the stage under the plan", labels, planned)
    yield _gauge(
        "magpie_serving_stage_rate", "Rows per second that the stage asks its model; planned for", (*labels, "of"),
        [((*key, of), e[name]) for key, e in stages for of, name in (("now", "rate"), ("planned", "planned_rate"))],
    )  # fmt: skip
    yield _gauge(
        "magpie_serving_stage_share_ratio", "Share of the device that the stage's model takes as planned", labels,
        [(key, e["share"]) for key, e in stages],
    )  # fmt: skip
    latency = [
        ((*key, quantile), ms / 1e3)
        for key, e in stages
        for quantile, ms in zip(("0.5", "0.99"), e["latency_ms"], strict=False)
    ]
    yield _gauge(
        "magpie_serving_stage_latency_seconds", "Time of the stage in the last second", (*labels, "quantile"), latency
    )
    fan_out = [((*key, of), e[name]) for key, e in stages for of, name in (("mean", "fan_out"), ("p99", "fan_out_p99"))]
    yield _gauge("magpie_serving_stage_fan_out", "Rows of the stage per row of a request", (*labels, "of"), fan_out)
    yield _counter(
        "magpie_serving_stage_requests", "Requests that reached the stage; answered; answered late; rows asked for",
        (*labels, "of"), [((*where, key), e[key]) for where, e in stages for key in ("requests", "answered", "over",
        "rows")], )  # fmt: skip
    fed = [((a["name"], a["camera"]), a["source"]) for a in s["serving"].get("applications") or () if a["source"]]
    of = ("application", "camera")
    yield _gauge(
        "magpie_serving_source_rate", "Answers per second with which the camera asks the application", of,
        [(key, source["rate"]) for key, source in fed],
    )  # fmt: skip
    yield _counter(
        "magpie_serving_source_lost", "Answers of the camera that reached no application, since its worker started", of,
        [(key, source["lost"]) for key, source in fed],
    )  # fmt: skip


def _tenants(s: Json) -> Iterator[Metric]:
    if not s["tenants"]["active"]:
        return
    tenants = [(str(t["id"]), t) for t in s["tenants"]["tenants"]]
    one = ("tenant",)
    for key, name, about in (
        ("held", "share", "Share of the device that the tenant has now"),
        ("entitlement", "entitlement", "Share that is the tenant's by right"),
        ("floor", "floor", "Share below which the tenant never is"),
    ):
        yield _gauge(f"magpie_tenant_{name}", about, one, [((tenant,), t["share"][key]) for tenant, t in tenants])
    for name, about in (
        ("performance", "Requests in time, or realised accuracy, where it was measured lately"),
        ("goal", "The performance that is wanted"),
        ("utility", "Utility of that performance"),
    ):
        yield _gauge(f"magpie_tenant_{name}", about, one, [((tenant,), t[name]) for tenant, t in tenants])
    bounds = ("low", "share", "high")
    demand = [((tenant, "mean" if b == "share" else b), t["demand"][b]) for tenant, t in tenants for b in bounds]
    yield _gauge(
        "magpie_tenant_demand_share", "Share with which the goal is expected to be met", ("tenant", "bound"), demand
    )
    yield _gauge(
        "magpie_tenant_best_performance", "Performance expected with the whole box", one,
        [((tenant,), t["demand"]["best"]) for tenant, t in tenants],
    )  # fmt: skip
    yield _counter(
        "magpie_tenant_moves",
        "Times that the tenant's share moved",
        one,
        [((tenant,), t["share"]["moves"]) for tenant, t in tenants],
    )


def _counted(s: Json) -> Iterator[Metric]:
    labels = ("camera", "kind", "name", "way", "class")
    yield _counter(
        "magpie_counted_objects_total", "Objects counted at a line, in a zone, from zone to zone; uncorrected", labels,
        [(tuple(str(row[label]) for label in labels), row["objects"]) for row in s["counting"]["counted"]],
    )  # fmt: skip
    yield from _minutes(s["counting"]["minutes"])
    yield _counter(
        "magpie_counts_lost_total", "Records of counts that could not be kept", (), [((), s["counting"]["lost"])]
    )


def _clips(s: Json) -> Iterator[Metric]:
    clips = s["clips"]
    yield _counter("magpie_clips_made_total", "Clips that were made", (), [((), clips["made"])])
    yield _counter(
        "magpie_clips_failed_total", "Clips that could not be made, by fault", ("fault",),
        [((fault,), count) for fault, count in sorted(clips["failed"].items())],
    )  # fmt: skip
    yield _counter("magpie_clips_not_taken_total", "Clips that could not be begun", (), [((), clips["not_taken"])])
    yield _gauge("magpie_clips_bytes", "Bytes of all clips that are kept", (), [((), clips["bytes"])])


def _minutes(minutes: Iterable[Json]) -> Iterator[Metric]:
    """The last minute of each camera; of one that was not watched there are no numbers."""
    labels = ("camera", "kind", "name", "way")
    found = [
        ((str(m["camera"]), *(str(place[label]) for label in labels[1:])), place)
        for m in minutes
        for place in m["places"]
        if m["watched"] > 0
    ]
    yield _gauge(
        "magpie_counted_last_minute_watched_ratio", "Part of the last minute that is over in which answers came",
        ("camera",), [((str(m["camera"]),), m["watched"]) for m in minutes],
    )  # fmt: skip
    yield _gauge(
        "magpie_counted_last_minute", "Objects of all classes in that minute, uncorrected", labels,
        [(key, place["objects"]) for key, place in found],
    )  # fmt: skip
    yield _gauge(
        "magpie_counted_last_minute_corrected", "The same, corrected by labels: value, and 90 % interval",
        (*labels, "bound"),
        [((*key, b), value) for key, place in found for b, value in (place["corrected"] or {}).items()],
    )  # fmt: skip


def _serving(s: Json) -> Iterator[Metric]:
    serving = s["serving"]
    if serving is None:
        return
    models = [(str(m["name"]), m) for m in serving["models"]]
    one = ("model",)
    yield _gauge("magpie_serving_front_up", "1 while requests are taken", (), [((), serving["front"]["up"])])
    yield _counter(
        "magpie_serving_turned_away_total", "Messages and streams by gRPC that had no room, or came too slowly", (),
        [((), serving["front"].get("turned_away"))],
    )  # fmt: skip
    yield _gauge(
        "magpie_serving_statistics_up", "1 if the front reported its statistics (nv_inference_*) for this scrape", (),
        [((), s["statistics"] is not None)],
    )  # fmt: skip
    yield _gauge(
        "magpie_serving_share_ratio", "Share of the device for served models", ("of",),
        [((key,), serving["share"].get(key)) for key in ("reserved", "planned", "most", "measuring")],
    )  # fmt: skip
    yield _gauge(
        "magpie_serving_executors", "Executors that are connected", (),
        [((), sum(bool(e["connected"]) for e in serving["executors"]))],
    )  # fmt: skip
    yield _gauge(
        "magpie_serving_model_up", "1 while the model is served, in full or in part", one,
        [((name,), m["state"] in ("serving", "capped")) for name, m in models],
    )  # fmt: skip
    for key, name, about in (
        ("rate", "rate", "Requests per second, moving average"),
        ("planned_rate", "planned_rate", "Requests per second that are planned for"),
        ("served_part", "served_ratio", "Part of the planned rate that fits"),
        ("violations_recent", "violations_ratio", "Part of recent requests that missed the SLO"),
        ("queued", "queued", "Requests that wait"),
        ("running", "running", "Requests that run"),
    ):
        yield _gauge(f"magpie_serving_{name}", about, one, [((model,), m.get(key)) for model, m in models])
    slo = [((name,), None if m.get("slo_ms") is None else m["slo_ms"] / 1e3) for name, m in models]
    yield _gauge("magpie_serving_slo_seconds", "Each request is to be answered within it", one, slo)
    latency = [
        ((name, quantile), ms / 1e3)
        for name, m in models
        for quantile, ms in zip(_QUANTILES, m.get("latency_ms") or (), strict=False)
    ]
    yield _gauge(
        "magpie_serving_latency_seconds", "Latency of the last second's requests", ("model", "quantile"), latency
    )
    outcomes = ("answered", "late", "dropped", "rejected", "failed")
    yield _counter(
        "magpie_serving_requests", "Requests by outcome; late ones are among the answered", ("model", "outcome"),
        [((name, outcome), m["total"].get(outcome)) for name, m in models for outcome in outcomes],
    )  # fmt: skip


def _triton(s: Json) -> Iterator[Metric]:
    statistics = s["statistics"]
    if s["serving"] is None or statistics is None:
        return
    rows = [((str(v["name"]), str(v["version"])), v) for v in statistics]

    def family(name: str, about: str, values: Iterable[tuple[tuple[str, str], Any]]) -> Metric:
        metric = Metric(name, about, "counter")
        for (model, version), value in values:
            number = _number(value)
            if number is not None:
                metric.add_sample(name, {"model": model, "version": version}, number)
        return metric

    for name, key, about in (
        ("nv_inference_request_success", "success", "Requests that were answered"),
        ("nv_inference_request_failure", "fail", "Requests that failed, were refused or too late to begin"),
    ):
        yield family(name, about, [(labels, v["inference_stats"][key]["count"]) for labels, v in rows])
    yield family("nv_inference_count", "Rows computed", [(labels, v["inference_count"]) for labels, v in rows])
    yield family("nv_inference_exec_count", "Batches computed", [(labels, v["execution_count"]) for labels, v in rows])
    for name, key, about in _TRITON:
        yield family(name, about, [(labels, v["inference_stats"][key]["ns"] / 1e3) for labels, v in rows])
    pending = {str(m["name"]): m.get("queued") for m in s["serving"]["models"]}
    yield _gauge(
        "nv_inference_pending_request_count", "Requests that wait", ("model", "version"),
        [(labels, pending.get(labels[0])) for labels, _ in rows],
    )  # fmt: skip
