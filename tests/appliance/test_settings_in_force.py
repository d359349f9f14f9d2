"""The settings that a start begins with: the file's cameras once, then the database's; settings changed by REST outlive
the file."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edge.appliance.settings_in_force import cameras_in_force, masks_not_in_force, site_in_force
from edge.core.errors import InvalidValues
from edge.settings import SiteSettings, parse
from edge.store.store import Store


@pytest.fixture
def store(upgraded_data: Path) -> Iterator[Store]:
    with Store(None, upgraded_data) as store:
        yield store


def _site(*cameras: str, **more: Any) -> SiteSettings:
    listed = [{"id": c, "url": f"rtsp://192.0.2.1/{c}", "classes": ["car"]} for c in cameras]
    return parse(SiteSettings, {"site": "junction", "cameras": listed} | more)


def test_a_camera_of_the_file_is_taken_once_and_the_database_decides_then(store: Store) -> None:
    (first,) = cameras_in_force(_site("north"), store)
    renamed = first.model_copy(update={"name": "North gate"})
    store.settings.put_camera("north", renamed.model_dump(mode="json"), "ann")
    found = cameras_in_force(_site("north", "south"), store)
    assert {c.id: c.name for c in found} == {"north": "North gate", "south": ""}
    assert {c.id for c in cameras_in_force(_site(), store)} == {"north", "south"}, "the file forgets none"


def test_a_mask_that_was_written_into_the_file_later_is_reported(store: Store) -> None:
    cameras_in_force(_site("north", "south"), store)
    mask = {"name": "window", "polygon": [[0.1, 0.1], [0.2, 0.1], [0.2, 0.2]]}
    site = _site("north", "south")
    (north, south) = (c.model_dump(mode="json") for c in site.cameras)
    edited = parse(SiteSettings, {"site": "junction", "cameras": [north | {"masks": [mask]}, south]})
    assert masks_not_in_force(edited, cameras_in_force(edited, store)) == {"north": ("window",)}
    store.settings.put_camera("north", north | {"masks": [mask]}, "ann")
    assert masks_not_in_force(edited, cameras_in_force(edited, store)) == {}


def test_a_name_that_would_be_refused_today_does_not_stop_a_start(store: Store) -> None:
    """It was kept by a version that took control characters."""
    (first,) = cameras_in_force(_site("north"), store)
    store.settings.put_camera("north", first.model_dump(mode="json") | {"name": "North\u202e\x07gate"}, "ann")
    (found,) = cameras_in_force(_site("north"), store)
    assert found.name == "North\\u202e\\u0007gate"


def test_retraining_that_was_changed_by_rest_outlives_the_file(store: Store) -> None:
    site = _site(retraining={"window_s": 300.0})
    assert site_in_force(site, store).retraining.window_s == 300.0
    store.settings.put_settings("retraining", site.retraining.model_dump(mode="json") | {"window_s": 120.0}, "ann")
    assert site_in_force(site, store).retraining.window_s == 120.0


def test_serving_that_was_changed_is_merged_and_needs_a_site_that_serves(store: Store) -> None:
    store.settings.put_settings("serving", {"policy": "elastic"}, "ann")
    assert site_in_force(_site(), store).serving is None
    serving = site_in_force(_site(serving={"folder": "models"}), store).serving
    assert serving is not None
    assert serving.planning.policy == "elastic"


def test_settings_in_the_database_that_cannot_be_read_are_named(store: Store) -> None:
    store.settings.put_settings("retraining", {"window_s": -1}, "ann")
    with pytest.raises(InvalidValues, match=r"retraining\.window_s"):
        site_in_force(_site(), store)
