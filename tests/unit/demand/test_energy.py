"""Energy, money and CO₂ by hand, and every assumption in words."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gsched.demand.energy import EnergyAssumptions, energy_saved


def test_a_thousand_hours_by_hand():
    told = energy_saved(
        1000,
        10,
        EnergyAssumptions(
            idle_w=700, asleep_w=50, waking_w=1300, wake_s=600, cooling_factor=0.5,
            price_a_kwh=0.2, co2_g_a_kwh=400,
        ),
    )  # fmt: skip
    assert told.waking_kwh == pytest.approx(10 * 600 * 600 / 3600 / 1000 * 1.5)
    assert told.kwh == pytest.approx(650 * 1.5 - 1.5)
    assert told.money == pytest.approx(told.kwh * 0.2)
    assert told.co2_kg == pytest.approx(told.kwh * 0.4)


def test_the_papers_assumptions_give_the_papers_order_of_magnitude():
    """Helios: over 1.65 million kWh a year; 78 sleeping nodes at 800 W and three times that."""
    assert energy_saved(78.5 * 8760, 0, EnergyAssumptions()).kwh == pytest.approx(1.65e6, rel=0.01)


def test_every_assumption_is_told():
    base = EnergyAssumptions()
    for each in fields(base):
        value = "EUR" if each.name == "currency" else getattr(base, each.name) / 2 + 7
        changed = replace(base, **{"idle_w": 5000.0} | {each.name: value})
        assert changed.lines() != replace(base, idle_w=5000.0).lines(), each.name
    told = energy_saved(1, 0, base).document(base)
    assert set(told["assumptions"]) == {each.name for each in fields(base)}


@pytest.mark.parametrize(
    "wrong", [{"idle_w": -1}, {"asleep_w": 900}, {"price_a_kwh": float("nan")}]
)
def test_nonsense_is_refused(wrong):
    with pytest.raises(ValueError, match=r"number|nothing"):
        EnergyAssumptions(**wrong)
    with pytest.raises(ValueError, match="negative"):
        energy_saved(-1, 0, EnergyAssumptions())


@given(st.floats(0, 1e6), st.floats(0, 1e4), st.floats(1, 3))
def test_twice_as_much_sleep_saves_twice_as_much(hours, woken, factor):
    told, more = (energy_saved(f * hours, f * woken, EnergyAssumptions()) for f in (1.0, factor))
    assert more.kwh == pytest.approx(factor * told.kwh)
    assert more.money == pytest.approx(factor * told.money)
