"""Pauses of the search for garbage."""

from __future__ import annotations

import gc

import pytest

from edge.appliance.garbage import no_garbage_search


def test_the_search_goes_on_after_the_last_pause() -> None:
    assert gc.isenabled()
    with no_garbage_search():
        with no_garbage_search():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_the_search_goes_on_after_an_error_and_stays_off_where_it_was_off() -> None:
    with pytest.raises(ValueError, match="x"), no_garbage_search():
        raise ValueError("x")
    assert gc.isenabled()
    gc.disable()
    try:
        with no_garbage_search():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
