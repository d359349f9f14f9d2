"""Which licences of model files Magpie takes by default.

A licence is an SPDX expression ("Apache-2.0", "MIT OR AGPL-3.0-only", "LicenseRef-Ours"). Three kinds are refused by
name unless the operator accepts them: a licence that obliges anyone who offers the model over a network (AGPL, and the
SSPL), one that forbids commercial use (CC BY-NC), and an unknown one.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final, Literal

from edge.core.errors import InvalidValue, LicenceRefused

Refusal = Literal["network_copyleft", "non_commercial", "unknown"]

#: Texts that people write where they know no licence.
UNKNOWN: Final = frozenset({"", "unknown", "none", "noassertion", "other"})
_EXPRESSION: Final = re.compile(r"\(?[A-Za-z0-9][A-Za-z0-9.+:-]*\)?( (AND|OR|WITH) \(?[A-Za-z0-9][A-Za-z0-9.+:-]*\)?)*")
_WHY: Final[dict[Refusal, str]] = {
    "network_copyleft": "it obliges anyone who offers the model over a network to publish their own source code",
    "non_commercial": "it forbids commercial use",
    "unknown": "it is not known whether the model may be used",
}


def checked_licence(path: str, value: object) -> str:
    """The licence as an SPDX expression, or one of the words for an unknown one. Raises InvalidValue."""
    if not isinstance(value, str) or len(value) > 200 or not _EXPRESSION.fullmatch(value.strip()):
        raise InvalidValue(
            path, value, "an SPDX licence as Apache-2.0, LicenseRef-NAME for one of your own, or unknown"
        )
    return value.strip()


def refusal(licence: str) -> Refusal | None:
    """Why the licence is refused; None: it is not. Of "A OR B" the better one counts, of "A AND B" the worse one."""
    if " OR " in licence and "(" not in licence:
        reasons = [refusal(one) for one in licence.split(" OR ")]
        return None if None in reasons else reasons[0]
    for part in re.split(r" (?:AND|OR|WITH) ", licence):
        name = part.strip("() ").lower()
        if name in UNKNOWN:
            return "unknown"
        if name.startswith(("agpl", "sspl")):
            return "network_copyleft"
        if "-nc-" in f"{name}-" and name.startswith("cc-"):
            return "non_commercial"
    return None


def covers(accepted: str, licence: str) -> bool:
    """Whether an operator who accepted `accepted` accepted `licence`: the same, or its -only and -or-later forms. A
    word for an unknown licence covers all of them."""
    left, right = accepted.strip().lower(), licence.strip().lower()
    if left in UNKNOWN or right in UNKNOWN:
        return left in UNKNOWN and right in UNKNOWN and left != ""
    return right == left or right in (f"{left}-only", f"{left}-or-later")


def check_licence(name: str, licence: str, accepted: Collection[str]) -> None:
    """Raises LicenceRefused, naming the model and its licence, unless the licence is taken or was accepted."""
    reason = refusal(licence)
    if reason is not None and not any(covers(one, licence) for one in accepted):
        shown = licence if licence.lower() not in UNKNOWN else "unknown"
        raise LicenceRefused(name, shown, _WHY[reason], f"--accept-licence {shown} takes it all the same")
