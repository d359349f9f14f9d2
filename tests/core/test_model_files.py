"""Where model files lie, how descriptions name them, and which licences are taken."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from edge.core.errors import InvalidValue, LicenceRefused
from edge.core.licences import check_licence, checked_licence, covers, refusal
from edge.core.model_files import model_path, models_folder


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"MAGPIE_MODELS": "/m", "XDG_DATA_HOME": "/x", "HOME": "/h"}, "/m"),
        ({"MAGPIE_MODELS": "", "XDG_DATA_HOME": "/x", "HOME": "/h"}, "/x/magpie/models"),
        ({"XDG_DATA_HOME": "not/absolute", "HOME": "/h"}, "/h/.local/share/magpie/models"),
        ({"HOME": "/h"}, "/h/.local/share/magpie/models"),
        ({}, str(Path.home() / ".local/share/magpie/models")),
        ({"MAGPIE_MODELS": "here"}, str(Path.cwd() / "here")),
    ],
)
def test_the_models_folder(environment: dict[str, str], folder: str) -> None:
    assert models_folder(environment) == Path(folder)


def test_paths_in_descriptions(tmp_path: Path) -> None:
    assert model_path("t.file", "${MAGPIE_MODELS}/x.onnx", tmp_path, {"HOME": "/h"}) == Path(
        "/h/.local/share/magpie/models/x.onnx"
    )
    assert model_path("t.file", "${MAGPIE_MODELS}/x.onnx", tmp_path, {"MAGPIE_MODELS": "/m"}) == Path("/m/x.onnx")
    assert model_path("t.file", "${OTHER}/x.onnx", tmp_path, {"OTHER": "/o"}) == Path("/o/x.onnx")
    assert model_path("t.file", "x.onnx", tmp_path, {}) == tmp_path / "x.onnx"
    with pytest.raises(InvalidValue) as wrong:
        model_path("t.file", "${OTHER}/x.onnx", tmp_path, {"MAGPIE_MODELS": "/m"})
    assert wrong.value.path == "t.file"
    assert "OTHER is not set" in wrong.value.allowed


@pytest.mark.parametrize(
    ("licence", "reason"),
    [
        ("Apache-2.0", None), ("BSD-3-Clause", None), ("MIT", None), ("GPL-3.0-only", None), ("LicenseRef-Ours", None),
        ("CC-BY-4.0", None), ("GPL-2.0-only WITH Classpath-exception-2.0", None),
        ("AGPL-3.0", "network_copyleft"), ("AGPL-3.0-only", "network_copyleft"),
        ("agpl-1.0-or-later", "network_copyleft"),
        ("MIT AND AGPL-3.0-only", "network_copyleft"), ("MIT OR AGPL-3.0-only", None), ("SSPL-1.0", "network_copyleft"),
        ("AGPL-3.0 OR unknown", "network_copyleft"), ("(MIT OR AGPL-3.0) AND ISC", "network_copyleft"),
        ("CC-BY-NC-4.0", "non_commercial"), ("CC-BY-NC-SA-4.0", "non_commercial"),
        ("unknown", "unknown"), ("none", "unknown"), ("NOASSERTION", "unknown"), ("", "unknown"),
    ],
)  # fmt: skip
def test_licences_that_are_refused(licence: str, reason: str | None) -> None:
    assert refusal(licence) == reason
    if reason is None:
        check_licence("net", licence, ())
        return
    with pytest.raises(LicenceRefused) as refused:
        check_licence("net", licence, ("MIT",))
    said = str(refused.value)
    assert said.startswith(f"net: its licence is {licence if reason != 'unknown' else 'unknown'}")
    assert "--accept-licence" in said
    assert str(pickle.loads(pickle.dumps(refused.value))) == said
    check_licence("net", licence, (licence or "unknown",))


@pytest.mark.parametrize(
    ("accepted", "licence", "holds"),
    [
        ("AGPL-3.0", "AGPL-3.0", True), ("agpl-3.0", "AGPL-3.0-only", True), ("AGPL-3.0", "AGPL-3.0-or-later", True),
        ("AGPL-3.0-only", "AGPL-3.0", False), ("AGPL-3.0", "AGPL-1.0", False), ("AGPL", "AGPL-3.0", False),
        ("unknown", "none", True), ("unknown", "AGPL-3.0", False), ("AGPL-3.0", "unknown", False),
        ("", "unknown", False),
    ],
)  # fmt: skip
def test_what_an_acceptance_covers(accepted: str, licence: str, holds: bool) -> None:
    assert covers(accepted, licence) is holds


@pytest.mark.parametrize("value", ["", "two words", "MIT OR", "MIT/BSD", "x" * 201, None, 3, ["MIT"], "MIT\nBSD"])
def test_what_is_no_licence(value: object) -> None:
    with pytest.raises(InvalidValue) as wrong:
        checked_licence("models[0].licence", value)
    assert wrong.value.path == "models[0].licence"
    assert "SPDX" in wrong.value.allowed
