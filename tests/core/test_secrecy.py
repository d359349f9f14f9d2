"""Addresses without their passwords."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge.core.secrecy import without_credentials


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("rtsp://u:p@ss@cam/x and rtsp://h/y", "rtsp://***@cam/x and rtsp://h/y"),
        ("rtsp://cam/user=admin_password=hush_channel=1&x", "rtsp://cam/user=admin_password=***&x"),
        ("http://cam/v?usr=a&pwd=hush&token=s3&w=9", "http://cam/v?usr=a&pwd=***&token=***&w=9"),
        ("password=hush is no address", "password=hush is no address"),
    ],
)
def test_passwords_of_addresses_are_masked(text: str, shown: str) -> None:
    assert without_credentials(text) == shown
    assert without_credentials(shown) == shown


@given(st.text(st.characters(categories=("L", "N")), min_size=4, max_size=30))
def test_no_password_of_an_address_is_shown(password: str) -> None:
    text = f"a rtsp://u:{password}@h/x, b rtsp://h/user=a_password={password}&c=1 c"
    assert without_credentials(text) == "a rtsp://***@h/x, b rtsp://h/user=a_password=***&c=1 c"


@given(st.text(max_size=200))
def test_any_text_is_taken(text: str) -> None:
    assert without_credentials(without_credentials(text)) == without_credentials(text)
