"""Authority, certificates, join codes and messages of a fleet."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from edge.core.errors import Conflict, InvalidValue
from edge.core.fleet_links import API_VERSION, FleetBeat, JoinAsk
from edge.fleet.codes import JoinCode, new_code, use_code
from edge.fleet.folder import FleetFolder
from edge.fleet.identity import Authority, fingerprint, new_authority, new_key, request_for
from edge.fleet.wire import decoded, encoded


@pytest.fixture(scope="module")
def authority() -> Authority:
    return new_authority("yard")


def test_a_certificate_names_the_box_that_was_let_in_not_the_one_that_asked(authority: Authority) -> None:
    certificate, serial = authority.sign(request_for(new_key(), "another-name"), "b2")
    shown = subprocess.run(
        ["openssl", "x509", "-noout", "-subject", "-serial", "-ext", "subjectAltName,basicConstraints"],
        input=certificate, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert "b2" in shown
    assert "DNS:b2" in shown
    assert "CA:FALSE" in shown
    assert "another-name" not in shown
    assert int(serial, 16) == int(shown.partition("serial=")[2].split()[0], 16)


def test_openssl_accepts_the_chain_under_its_strict_rules(authority: Authority, tmp_path: Path) -> None:
    certificate, _ = authority.sign(request_for(new_key(), "b1"), "b1")
    (tmp_path / "ca.pem").write_text(authority.certificate)
    (tmp_path / "box.pem").write_text(certificate)
    command = ["openssl", "verify", "-x509_strict", "-CAfile", str(tmp_path / "ca.pem"), str(tmp_path / "box.pem")]
    assert subprocess.run(command, capture_output=True, text=True, check=False).returncode == 0


def test_a_text_that_is_no_request_gets_no_certificate(authority: Authority) -> None:
    with pytest.raises(InvalidValue, match="a certificate request in PEM form"):
        authority.sign("-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n", "b1")


def test_keys_are_readable_by_the_account_only(authority: Authority, tmp_path: Path) -> None:
    folder = FleetFolder(tmp_path)
    assert not folder.joined
    folder.take_identity(authority.certificate, authority.key, "certificate", "key")
    assert folder.joined
    assert {(folder.path / n).stat().st_mode & 0o777 for n in ("box.key", "ca.key")} == {0o600}
    folder.forget()
    assert not folder.path.exists()


def test_a_code_is_used_once_ends_and_is_kept_as_a_hash(authority: Authority, tmp_path: Path) -> None:
    folder, mark = FleetFolder(tmp_path), fingerprint(authority.certificate)
    code, late = new_code(folder, mark, 1000.0, 1.0), new_code(folder, mark, 1000.0, 1.0)
    again = JoinCode.parse(code.reveal())
    assert again == code
    assert again.proves(mark)
    assert not again.proves(fingerprint(new_authority("other").certificate))
    assert use_code(folder, "guessed", 1001.0) == "bad_code"
    assert use_code(folder, code.secret, 1001.0) == "good"
    assert use_code(FleetFolder(tmp_path), code.secret, 1001.0) == "used_code", "over a restart, too"
    assert use_code(folder, late.secret, 1000.0 + 3601.0) == "old_code"
    kept = b"".join(p.read_bytes() + p.name.encode() for p in (folder.path / "codes").iterdir())
    assert code.secret.encode() not in kept
    assert code.secret not in repr(code)


@pytest.mark.parametrize("text", ["", "abc", "x" * 32 + ".secret", "0" * 32 + "."])
def test_a_text_that_is_no_code_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        JoinCode.parse(text)
    assert "(not shown)" in str(refused.value)


def test_a_message_of_the_version_before_and_after_is_understood() -> None:
    before = b'{"sender": "b2", "term": 3, "boot": "x", "api": %d}' % (API_VERSION - 1)
    assert decoded(FleetBeat, before) == FleetBeat("b2", 3, "x", api=API_VERSION - 1)
    after = b'{"sender": "b2", "term": 3, "boot": "x", "mood": {"good": true}, "api": %d}' % (API_VERSION + 1)
    assert decoded(FleetBeat, after).sender == "b2"
    with pytest.raises(Conflict, match="upgrade boxes one version at a time"):
        decoded(FleetBeat, after.replace(b'"api": %d' % (API_VERSION + 1), b'"api": %d' % (API_VERSION + 2)))


def test_a_message_comes_back_as_it_was_and_a_bad_field_is_named() -> None:
    asked = JoinAsk("secret", "b2", "https://b2:8470", "request", zones=("gate",))
    assert decoded(JoinAsk, encoded(asked)) == asked
    with pytest.raises(InvalidValue, match="zones"):
        decoded(JoinAsk, encoded(asked).replace(b'["gate"]', b"7"))
