"""The settings that a start begins with: the site's file, and changes by REST since. Everything here blocks."""

from __future__ import annotations

from collections.abc import Sequence

from edge.core.checks import made_plain
from edge.core.tenants import SHARING_SETTINGS, TENANTS_SETTINGS
from edge.settings import (
    CameraSettings,
    RetrainingSettings,
    ServingPlanning,
    ServingSettings,
    SharingSettings,
    SiteSettings,
    TenantSettings,
    merge,
    parse,
)
from edge.store.store import Store


def site_in_force(site: SiteSettings, store: Store) -> SiteSettings:
    """The site with the retraining and serving settings, and those of tenants, in force. Raises InvalidValues,
    StoreError."""
    tenants, sharing = _tenants(site, store)
    return site.model_copy(
        update={
            "retraining": _retraining(site, store),
            "serving": _serving(site, store),
            "tenants": tenants,
            "sharing": sharing,
        }
    )


def cameras_in_force(site: SiteSettings, store: Store) -> list[CameraSettings]:
    """Cameras of the configuration file are put into the database once; from then on the database decides. Raises
    InvalidValues, StoreError."""
    known = {c.id: c for c in store.settings.cameras()}
    for camera in site.cameras:
        if camera.id not in known:
            store.settings.put_camera(
                camera.id, camera.model_dump(mode="json"), "configuration file", enabled=camera.enabled
            )
    return [parse(CameraSettings, made_plain(c.settings), f"cameras.{c.id}") for c in store.settings.cameras()]


def masks_not_in_force(site: SiteSettings, cameras: Sequence[CameraSettings]) -> dict[str, tuple[str, ...]]:
    """By camera, the names of masks that the file has and that are not in force: it was edited, or the masks were
    changed, after the camera was taken from it."""
    in_force = {c.id: set(c.masks) for c in cameras}
    missing = {c.id: tuple(m.name for m in c.masks if m not in in_force.get(c.id, set())) for c in site.cameras}
    return {camera: names for camera, names in missing.items() if names}


def _retraining(site: SiteSettings, store: Store) -> RetrainingSettings:
    kept = store.settings.get_settings("retraining")
    return site.retraining if kept is None else parse(RetrainingSettings, kept, "retraining")


def _tenants(site: SiteSettings, store: Store) -> tuple[tuple[TenantSettings, ...], SharingSettings]:
    """Once people changed the tenants, or how they share, the database decides."""
    tenants, sharing = site.tenants, site.sharing
    kept, rules = store.settings.get_settings(TENANTS_SETTINGS), store.settings.get_settings(SHARING_SETTINGS)
    if kept is not None:
        entries = enumerate(kept.get("tenants", ()))
        tenants = tuple(parse(TenantSettings, made_plain(t), f"tenants[{n}]") for n, t in entries)
    if rules is not None:
        sharing = parse(SharingSettings, rules, "sharing")
    return tenants, sharing


def _serving(site: SiteSettings, store: Store) -> ServingSettings | None:
    """Changes by REST go on; the file counts for a model that REST never named."""
    serving = site.serving
    kept = store.settings.get_settings("serving")
    if serving is None or kept is None:
        return serving
    planning = parse(ServingPlanning, merge(serving.planning.model_dump(mode="json"), kept), "serving.planning")
    return serving.model_copy(update={"planning": planning})
