"""Hashes of passwords."""

from __future__ import annotations

import pytest
from argon2 import PasswordHasher, extract_parameters
from argon2.exceptions import Argon2Error, VerifyMismatchError

from edge.access.passwords import HashCost, Passwords


def test_a_name_without_a_user_costs_what_a_wrong_password_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    verify, seen = PasswordHasher.verify, []

    def watched(self: PasswordHasher, kept: str, password: str) -> bool:
        try:
            return verify(self, kept, password)
        except Argon2Error as error:
            seen.append((extract_parameters(kept), type(error)))
            raise

    monkeypatch.setattr(PasswordHasher, "verify", watched)
    passwords = Passwords(HashCost(passes=2, memory_kib=16, lanes=1))
    kept = passwords.hash("7 herons by the weir")
    assert passwords.fits(kept, "7 herons by the weir")
    assert not passwords.fits(kept, "8 herons by the weir")
    assert not passwords.fits(None, "7 herons by the weir")
    assert [error for _, error in seen] == [VerifyMismatchError] * 2
    assert seen[0] == seen[1]
