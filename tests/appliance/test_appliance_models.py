"""Versions as REST tells them: where they came from, and the parts of the configuration that trained them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edge.appliance.answers.models import ConfigAnswer
from edge.appliance.models import Models
from edge.core.clock import ManualClock
from edge.core.configs import RetrainingConfig, StudentSpec
from edge.core.models import ModelVersion
from edge.settings import RetrainingSettings
from edge.store.store import Store

SPEC = StudentSpec("classification", "resnet18", ("car",), (64, 64))
KNOWN = RetrainingSettings().configs(False)[0]
GONE = RetrainingConfig(epochs=999)


@pytest.fixture
def store(upgraded_data: Path) -> Iterator[Store]:
    with Store(None, upgraded_data, clock=ManualClock()) as store:
        store.add_model(ModelVersion("a", "north", "", SPEC, 1.0), b"1")
        store.add_model(ModelVersion("b", "north", "", SPEC, 2.0, parent="a", window=4, config=KNOWN.id), b"2")
        store.add_model(ModelVersion("c", "north", "", SPEC, 3.0, parent="b", window=5, config=GONE.id), b"3")
        yield store


def test_a_version_has_its_origin_and_configuration(store: Store) -> None:
    runtime: Any = SimpleNamespace(camera=lambda c: None, window=SimpleNamespace(settings=RetrainingSettings()))
    newest, middle, first = Models(store, runtime).versions("north")
    assert (first.origin, first.window, first.retraining) == ("first", None, None)
    assert (middle.origin, middle.window) == ("retrained", 4)
    assert middle.retraining == ConfigAnswer(**KNOWN.to_json())
    assert newest.config == GONE.id
    assert newest.retraining is None, "the present settings have no such configuration: its id is all that is known"
