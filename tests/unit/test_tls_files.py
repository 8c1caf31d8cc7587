"""A file for TLS that cannot be used is told with its setting, and what it should be: not in OpenSSL's words alone."""

from __future__ import annotations

import fcntl
import os
import pty
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from fencepost.errors import ConfigurationError
from fencepost.servers import TlsSettings
from tests.services import needed


@pytest.fixture
def rubbish(tmp_path: Path) -> str:
    file = tmp_path / "rubbish.pem"
    file.write_text("not a certificate")
    return str(file)


@pytest.fixture
def pair(tmp_path: Path) -> tuple[str, str]:
    """A certificate and its private key, which needs a password."""
    made, key = str(tmp_path / "made.pem"), str(tmp_path / "made.key")
    words = f"req -x509 -newkey rsa:2048 -days 2 -subj /CN=test -passout pass:secret -keyout {key} -out {made}"
    subprocess.run([needed("openssl"), *words.split()], check=True, capture_output=True)
    return made, key


def told(settings: TlsSettings) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        settings.tls_context(True)
    return caught.value


def test_authorities_that_are_none(rubbish: str) -> None:
    error = told(TlsSettings(tls_ca=rubbish))
    assert error.what.startswith(f"tls_ca = {rubbish!r} cannot be used: ")
    assert "-----BEGIN CERTIFICATE-----" in error.remedy


def test_a_certificate_that_is_none(rubbish: str) -> None:
    error = told(TlsSettings(tls_cert=rubbish, tls_key=rubbish))
    assert error.what.startswith(f"tls_cert = {rubbish!r} and tls_key = {rubbish!r} cannot be used: ")
    assert "private key" in error.remedy


def test_a_private_key_that_needs_a_password_is_refused_and_not_asked_for(pair: tuple[str, str]) -> None:
    """A relay has nobody to ask: OpenSSL would wait for somebody at the terminal."""
    made, key = pair
    program = f"from fencepost.servers import TlsSettings as T; T(tls_cert={made!r}, tls_key={key!r}).tls_context(True)"
    ours, theirs = pty.openpty()
    asked = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        preexec_fn=_at_a_terminal,  # noqa: PLW1509 - nothing else runs in the child before the program does
    )
    try:
        assert asked.wait(20) == 1
        said = os.read(ours, 100_000).decode()
    finally:
        asked.kill()
        asked.wait()
        os.close(ours)
        os.close(theirs)
    assert f"tls_key = {key!r} cannot be used" in said
    assert "without a password" in said


def _at_a_terminal() -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
