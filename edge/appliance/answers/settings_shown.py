"""The fields of settings inside answers that a user gets who may see some cameras only, by the settings' class. A field
that is not in its list is shown as its default: a new one is hidden until it is added here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

from edge.settings import (
    CameraClips,
    CameraRetraining,
    CameraSettings,
    ConfigurationSpace,
    InferenceSettings,
    LineSettings,
    MaskSettings,
    ModelDemand,
    RecordingSettings,
    RetentionSettings,
    RetrainingSettings,
    RuleSettings,
    ServingPlanning,
    Settings,
    SharingSettings,
    StudentSettings,
    TenantObjectiveSettings,
    TenantSettings,
    ZoneSettings,
)

S = TypeVar("S", bound=Settings)

#: By class. A camera's address is shown to such users too, without what logs in there (web.limits.camera).
SHOWN_SETTINGS: Final[Mapping[type[Settings], frozenset[str]]] = {
    CameraSettings: frozenset(
        {
            "id", "name", "url", "transport", "username", "password_from", "stall_timeout_s", "max_fps",
            "seconds_per_picture", "enabled", "task", "classes", "class_map", "student", "inference", "retraining",
            "zones", "lines", "clips", "masks",
        }
    ),
    StudentSettings: frozenset(
        {"architecture", "input_height", "input_width", "width", "last_layer_width", "weights", "model", "class_map"}
    ),
    InferenceSettings: frozenset({"frame_rates", "resolutions", "score_threshold", "region", "shape"}),
    CameraRetraining: frozenset({"enabled", "every_kth_window", "label_budget"}),
    ZoneSettings: frozenset({"name", "polygon", "classes"}),
    CameraClips: frozenset({"enabled", "before_s", "after_s"}),
    MaskSettings: frozenset({"name", "polygon"}),
    LineSettings: frozenset({"name", "start", "end", "classes"}),
    RetrainingSettings: frozenset(
        {
            "enabled", "window_s", "policy", "a_min", "delta", "space", "published_space", "label_budget", "held_out",
            "golden_share", "evaluation_share", "profiling_budget", "exemplars", "groups", "gate_tolerance",
            "rollback_margin", "quiet_hours",
        }
    ),
    ConfigurationSpace: frozenset(
        {"epochs", "batch_sizes", "layers", "data_fractions", "learning_rates", "last_layer_widths"}
    ),
    RuleSettings: frozenset(
        {
            "id", "name", "kind", "enabled", "cameras", "classes", "zones", "dwell_s", "below", "after_s", "severity",
            "quiet_hours", "min_interval_s", "clip", "from_zones", "lines", "above", "factor",
        }
    ),
    ServingPlanning: frozenset(
        {
            "policy", "split", "latencies", "max_share", "cameras_priority", "half_life_s", "rise_half_life_s",
            "headroom", "grow_dwell_s", "shrink_dwell_s", "models",
        }
    ),
    ModelDemand: frozenset({"rate", "min_rate", "slo_ms", "priority"}),
    # Applications may be asked by a camera, and be named after it.
    TenantSettings: frozenset(
        {"id", "name", "entitlement", "objective", "models", "cameras", "floor", "declared_demand", "proxy_utilisation"}
    ),
    TenantObjectiveSettings: frozenset({"metric", "goal", "utility"}),
    SharingSettings: frozenset(
        {"policy", "interval_s", "largest_step", "explore", "dwell_s", "hysteresis", "missed_minutes"}
    ),
    RecordingSettings: frozenset({"max_frames", "max_mb", "keep_windows"}),
    RetentionSettings: frozenset(
        {"days", "count_days", "max_gb", "max_events", "max_events_mb", "max_objects", "max_object_pictures_mb"}
    ),
}  # fmt: skip


def shown_settings(settings: S, listed: Mapping[type[Settings], frozenset[str]] = SHOWN_SETTINGS) -> S:
    """`settings` with defaults in place of the fields that are not `listed`. Raises TypeError for a field that is not
    listed and has no default."""
    kind = type(settings)
    shown = listed.get(kind, frozenset())
    names = kind.model_fields
    values = {
        name: _inside(getattr(settings, name), listed) if name in shown else _default(kind, name) for name in names
    }
    return settings.model_copy(update=values)


def _inside(value: Any, listed: Mapping[type[Settings], frozenset[str]]) -> Any:
    if isinstance(value, Settings):
        return shown_settings(value, listed)
    if isinstance(value, tuple):
        return tuple(_inside(inner, listed) for inner in value)
    if isinstance(value, Mapping):
        return {key: _inside(inner, listed) for key, inner in value.items()}
    return value


def _default(kind: type[Settings], name: str) -> Any:
    field = kind.model_fields[name]
    if field.is_required():
        raise TypeError(f"{kind.__name__}.{name} is not in edge.appliance.answers.settings_shown and has no default")
    return field.get_default(call_default_factory=True)
