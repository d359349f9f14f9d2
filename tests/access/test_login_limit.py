"""How often a login may be tried, under any sequence of tries."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edge.access.limits import ADDRESS, NAME, PAIR, LoginLimit

WINDOW_S = 300.0
tries = st.lists(
    st.tuples(st.sampled_from("ab"), st.sampled_from(["10.0.0.1", "10.0.0.2"]), st.floats(0, 120)), max_size=120
)


@given(tries)
def test_never_more_than_allowed_within_the_time(sequence: list[tuple[str, str, float]]) -> None:
    limit, now, done = LoginLimit(), 0.0, []
    for name, address, pause in sequence:
        now += pause
        wait = limit.wait_s(name, address, now)
        recent = [(n, a) for n, a, at in done if at > now - WINDOW_S]
        used_up = (
            recent.count((name, address)) >= PAIR
            or sum(a == address for _, a in recent) >= ADDRESS
            or sum(n == name for n, _ in recent) >= NAME
        )
        assert (wait > 0) == used_up
        assert wait <= WINDOW_S
        if wait == 0:
            limit.tried(name, address, now)
            done.append((name, address, now))
        else:  # and after that time it is allowed, if no other tries meanwhile
            assert limit.wait_s(name, address, now + wait) == 0


def test_many_addresses_cannot_try_one_name_without_end() -> None:
    limit = LoginLimit()
    for number in range(NAME):
        assert limit.wait_s("ann", f"10.0.{number}.1", 0.0) == 0
        limit.tried("ann", f"10.0.{number}.1", 0.0)
    assert limit.wait_s("ann", "10.9.9.9", 0.0) == WINDOW_S
    assert limit.wait_s("bob", "10.9.9.9", 0.0) == 0


def test_another_address_of_the_same_network_is_no_other_client() -> None:
    limit = LoginLimit()
    for number in range(PAIR):
        limit.tried("ann", f"2001:db8:1:2::{number + 1}", float(number))
    assert limit.wait_s("ann", "2001:db8:1:2:aaaa::1", 10.0) > 0
    assert limit.wait_s("ann", "2001:db8:1:3::1", 10.0) == 0
    limit.succeeded("ann", "2001:db8:1:2::9")
    assert limit.wait_s("ann", "2001:db8:1:2::1", 10.0) == 0
    # The same client, however the server was reached.
    for number in range(PAIR):
        limit.tried("bob", "::ffff:192.0.2.7", float(number))
    assert limit.wait_s("bob", "192.0.2.7", 10.0) > 0
    assert limit.wait_s("bob", "not an address", 10.0) == 0


def test_one_known_password_opens_no_way_to_guess_others() -> None:
    """Good logins in between forget one's own slips, but those count on against the address."""
    limit, slips = LoginLimit(), 0
    while limit.wait_s("ann", "10.0.0.1", 0.0) == 0 and slips < 1000:
        for _ in range(PAIR - 1):
            if limit.wait_s("ann", "10.0.0.1", 0.0) == 0:
                limit.tried("ann", "10.0.0.1", 0.0)
                slips += 1
        if limit.wait_s("ann", "10.0.0.1", 0.0) == 0:
            limit.tried("ann", "10.0.0.1", 0.0)
            limit.succeeded("ann", "10.0.0.1")
    assert slips == ADDRESS
    assert limit.wait_s("bob", "10.0.0.1", 0.0) > 0


@given(st.integers(1, 50), st.integers(0, 400))
def test_memory_is_bounded(most: int, names: int) -> None:
    limit = LoginLimit(most)
    for number in range(names):
        limit.tried(f"user{number}", f"10.{number}.0.1", float(number))
    assert len(limit) <= most
