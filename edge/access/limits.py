"""How often a login may be tried: by name, by address, and by both together. Memory is bounded; time comes in."""

from __future__ import annotations

import ipaddress
from collections import OrderedDict, deque
from typing import Final

#: Tries that are allowed within `_WITHIN_S`: of one name from one address, from one address, and of one name. The last
#: is high, since anybody can use it up and keep the user out with it; a good password stands that many.
PAIR: Final = 5
ADDRESS: Final = 30
NAME: Final = 100
_WITHIN_S: Final = 300.0
_MOST_KEYS: Final = 5000


class LoginLimit:
    """Counts tries that did not succeed. Those longest untouched are forgotten beyond `most_keys`."""

    def __init__(self, most_keys: int = _MOST_KEYS) -> None:
        self._tries: OrderedDict[tuple[str, ...], deque[float]] = OrderedDict()
        self._most = most_keys

    def __len__(self) -> int:
        return len(self._tries)

    def wait_s(self, name: str, address: str, now_s: float) -> float:
        """Seconds until the next try is allowed; 0: now. `now_s`: monotonic."""
        return max(self._wait(key, most, now_s) for key, most in _keys(name, address))

    def tried(self, name: str, address: str, now_s: float) -> None:
        """Count a try, before it is known whether it succeeds, so that many at once are counted too."""
        for key, most in _keys(name, address):
            tries = self._tries.setdefault(key, deque(maxlen=most))
            tries.append(now_s)
            self._tries.move_to_end(key)
        while len(self._tries) > self._most:
            self._tries.popitem(last=False)

    def succeeded(self, name: str, address: str) -> None:
        """The last try was good: it does not count, and earlier tries of this name from this address are forgotten."""
        for key, _ in _keys(name, address):
            tries = self._tries.get(key)
            if not tries:
                continue
            tries.pop()
            if key[0] == "pair":
                tries.clear()
            if not tries:
                del self._tries[key]

    def _wait(self, key: tuple[str, ...], most: int, now_s: float) -> float:
        tries = self._tries.get(key)
        if tries is None or len(tries) < most:
            return 0.0
        return max(0.0, tries[0] + _WITHIN_S - now_s)


def _keys(name: str, address: str) -> tuple[tuple[tuple[str, ...], int], ...]:
    network = _network(address)
    return ((("pair", name, network), PAIR), (("address", network), ADDRESS), (("name", name), NAME))


def _network(address: str) -> str:
    """The network of one client: in IPv6 a whole /64, so another address in it is no other client."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if found.version == 6:
        return str(found.ipv4_mapped or ipaddress.ip_network((int(found) >> 64 << 64, 64)))
    return address
