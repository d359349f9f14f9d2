"""Which secrets settings from outside may name."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge.core.errors import InvalidValue
from edge.ingest.secrets import check_named

ALLOWED = ("secret:", "file:/run/secrets/", "env:MAGPIE_", "file:/etc/magpie/cameras")


@pytest.mark.parametrize(
    "reference",
    ["", "secret:gate", "file:/run/secrets/gate", "file:/run/secrets/deep/gate#north", "env:MAGPIE_GATE",
     "file:/etc/magpie/cameras", "file:/etc/magpie/cameras#north", "file:/run/secrets/../secrets/gate"],
)  # fmt: skip
def test_what_begins_as_allowed_may_be_named(reference: str) -> None:
    check_named(reference, "", ALLOWED)


@pytest.mark.parametrize(
    "reference",
    ["file:/etc/passwd", "file:/run/secrets/../../etc/passwd", "file:/run/secretsgate", "file:/run/secrets",
     "file:/etc/magpie/cameras.old", "file:run/secrets/gate", "env:PATH", "env:magpie_gate", "file:secret:gate"],
)  # fmt: skip
def test_anything_else_is_refused_with_what_is_allowed(reference: str) -> None:
    with pytest.raises(InvalidValue, match="secret_references") as refused:
        check_named(reference, "env:OTHER", ALLOWED, "password_from")
    assert refused.value.path == "password_from"
    assert "file:/run/secrets/" in str(refused.value)
    with pytest.raises(InvalidValue):
        check_named("secret:gate", "", ())


def test_an_operator_may_allow_every_file() -> None:
    check_named("file:/srv/cameras/gate", "", ("file:/",))


def test_what_is_there_already_stays() -> None:
    check_named("file:/etc/shadow", "file:/etc/shadow", ALLOWED)


def test_a_link_out_of_the_folder_is_followed(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.write_text("x")
    (inside / "link").symlink_to(outside)
    (inside / "real").write_text("y")
    (inside / "near").symlink_to(inside / "real")
    allowed = (f"file:{inside}/",)
    check_named(f"file:{inside}/near", "", allowed)
    with pytest.raises(InvalidValue):
        check_named(f"file:{inside}/link", "", allowed)
