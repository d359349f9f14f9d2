"""Texts without the passwords that addresses carry."""

from __future__ import annotations

import re
from typing import Final

MASK: Final = "***"
#: `user:password@`; a password may hold an @.
_USER = re.compile(r"(\b[A-Za-z][A-Za-z0-9+.-]*://)[^/\s'\"]*@")
#: Credentials that cameras without a log-in of RTSP want in the path or query: `user=admin_password=x_channel=1`.
_PARAMETER = re.compile(
    r"(\b[A-Za-z][A-Za-z0-9+.-]*://[^\s'\"]*?(?:password|passwd|pass|pwd|psw|token|secret|api_?key)=)"
    r"(?!\*\*\*)[^\s'\"&?#/;,]+",
    re.IGNORECASE,
)


def without_credentials(text: str) -> str:
    """The text with user and password of every address in it, and passwords in paths and queries, replaced by `***`."""
    text = _USER.sub(rf"\1{MASK}@", text)
    while (shorter := _PARAMETER.sub(rf"\1{MASK}", text)) != text:
        text = shorter
    return text
