"""The same policy with leases of another length."""

from __future__ import annotations

from gsched.policy.lease_length import lease_lengths, with_lease
from gsched.policy.registry import load, load_scoped


def test_what_leases_gets_the_length_and_stays_as_it_was() -> None:
    policy = load("ltgf", half_life_s=3600.0)
    longer = with_lease(policy, 3620)
    assert lease_lengths(longer) == (3620.0,)
    assert lease_lengths(policy) == (900.0,)
    assert longer.knob_values == policy.knob_values | {"lease_s": 3620.0}
    assert with_lease(longer, 3620) is longer
    assert lease_lengths(with_lease(policy, 10**9)) == (30 * 86400.0,)  # the knob's own bound


def test_what_does_not_lease_is_left_as_it_is() -> None:
    policy = load("qssf")
    assert with_lease(policy, 3620) is policy
    assert lease_lengths(policy) == ()


def test_each_part_of_a_scoped_policy_gets_it() -> None:
    policy = load_scoped("qssf", {"gpu": "ltgf", "long": "tiresias"}, {})
    longer = with_lease(policy, 4000)
    assert lease_lengths(longer) == (4000.0, 4000.0)
    assert [p.name for p in longer.policies] == [p.name for p in policy.policies]  # type: ignore[attr-defined]
    assert longer.name == policy.name
    assert 4000.0 not in lease_lengths(policy)
    assert with_lease(longer, 4000) is longer
    plain = load_scoped("qssf", {"gpu": "fifo"}, {})
    assert with_lease(plain, 4000) is plain
