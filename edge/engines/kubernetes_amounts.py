"""Amounts as Kubernetes counts them.

The fleet's own names are extended resources, which are whole numbers: an amount is counted in thousandths, and one that
is never used up is 1,000,000. `cpu`, `mem_gb` and `gpu` are what a node has by itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import ROUND_CEILING, Decimal, InvalidOperation
from typing import Final

from edge.core.errors import InvalidValue
from edge.core.fleet import UNBOUNDED

#: A node's own resources by the fleet's names.
NATIVE: Final[Mapping[str, str]] = {"cpu": "cpu", "mem_gb": "memory", "gpu": "nvidia.com/gpu"}
_THOUSAND: Final = 1000
UNBOUNDED_COUNT: Final = 1_000_000
MOST_AMOUNT: Final = (UNBOUNDED_COUNT - 1) / _THOUSAND

_QUANTITY: Final = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)([numkMGTPE]|[KMGTPE]i)?")
_SUFFIX: Final[Mapping[str, Decimal]] = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "k": Decimal(10**3), "M": Decimal(10**6),
    "G": Decimal(10**9), "T": Decimal(10**12), "P": Decimal(10**15), "E": Decimal(10**18), "Ki": Decimal(2**10),
    "Mi": Decimal(2**20), "Gi": Decimal(2**30), "Ti": Decimal(2**40), "Pi": Decimal(2**50), "Ei": Decimal(2**60),
}  # fmt: skip


def count_of(path: str, amount: float) -> int:
    """An amount as a whole number. Raises InvalidValue, which names `path`: an amount that cannot be counted so."""
    if amount == UNBOUNDED:
        return UNBOUNDED_COUNT
    count = round(amount * _THOUSAND)
    if not 0 <= count < UNBOUNDED_COUNT or abs(count - amount * _THOUSAND) > 1e-6 * max(1.0, count):
        raise InvalidValue(path, amount, f"whole thousandths from 0 to {MOST_AMOUNT:g}, or {UNBOUNDED:g} (unbounded)")
    return count


def demand_count(path: str, amount: float) -> int:
    """A demand as a whole number: rounded up, so that nothing is over-booked. Raises InvalidValue."""
    if not 0.0 <= amount <= MOST_AMOUNT:
        raise InvalidValue(path, amount, f"a number from 0 to {MOST_AMOUNT:g}")
    return int((Decimal(str(amount)) * _THOUSAND).to_integral_value(ROUND_CEILING))


def amount_of(count: str) -> float:
    """The amount of an extended resource's capacity."""
    whole = int(parse_quantity(count))
    return UNBOUNDED if whole == UNBOUNDED_COUNT else whole / _THOUSAND


def free_amount(capacity: str, asked: int) -> float:
    """An extended resource's amount that is free when pods ask for so many thousandths."""
    return max(0.0, amount_of(capacity) - asked / _THOUSAND)


def native_quantity(name: str, amount: float) -> str:
    """A node's own resource as a quantity: cores in thousandths, memory in whole bytes, devices whole. Raises
    InvalidValue for parts of a device."""
    if name == "cpu":
        thousandths = demand_count("demand.cpu", amount)
        return f"{thousandths}m" if thousandths % _THOUSAND else str(thousandths // _THOUSAND)
    if name == "mem_gb":
        return str(int((Decimal(str(amount)) * 10**9).to_integral_value(ROUND_CEILING)))
    if amount != int(amount):
        raise InvalidValue(f"demand.{name}", amount, "a whole number of devices")
    return str(int(amount))


def native_amount(name: str, quantity: str) -> float:
    """The fleet's amount of a node's own resource."""
    value = parse_quantity(quantity)
    return float(value / 10**9) if name == "mem_gb" else float(value)


def parse_quantity(text: str) -> Decimal:
    """A quantity of Kubernetes, such as `500m` or `16Gi`. Raises InvalidValue."""
    found = _QUANTITY.fullmatch(text)
    try:
        if found is None:
            raise InvalidOperation
        return Decimal(found[1]) * _SUFFIX.get(found[2] or "", Decimal(1))
    except InvalidOperation:
        raise InvalidValue("quantity", text, "a quantity of Kubernetes, such as 500m or 16Gi") from None
