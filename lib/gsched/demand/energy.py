"""What sleeping nodes save: kilowatt-hours, money and CO₂, with all that is assumed.

Nothing is metered: hours asleep times watts that are assumed. Helios (SC'21) assumed 800 W for an
idle DGX-1, nothing for one asleep, and for cooling twice the servers' energy on top.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields


@dataclass(frozen=True, slots=True)
class EnergyAssumptions:
    """Power of a node in watts: awake and idle, asleep, and while it wakes for `wake_s` seconds.

    `cooling_factor` is the energy of cooling and power supply per energy of the servers: PUE − 1.
    Price per kWh in `currency`, CO₂ in grams per kWh.
    """

    idle_w: float = 800.0
    asleep_w: float = 0.0
    waking_w: float = 800.0
    wake_s: float = 300.0
    cooling_factor: float = 2.0
    price_a_kwh: float = 0.15
    currency: str = "USD"
    co2_g_a_kwh: float = 450.0

    def __post_init__(self) -> None:
        numbers = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "currency"}
        if wrong := [name for name, value in numbers.items() if not 0 <= value < 1e9]:
            raise ValueError(f"{', '.join(wrong)}: not a number from 0 on")
        if self.asleep_w > self.idle_w:
            raise ValueError(f"asleep {self.asleep_w} W, idle {self.idle_w} W: nothing is saved")

    def lines(self) -> list[str]:
        """Every assumption in words, one a line."""
        pue = 1 + self.cooling_factor
        return [
            f"a node uses {self.idle_w:g} W idle and {self.asleep_w:g} W asleep (assumed)",
            f"it uses {self.waking_w:g} W for the {self.wake_s:g} s in which it wakes (assumed)",
            f"cooling and supply add {self.cooling_factor:g} times that: PUE {pue:g} (assumed)",
            f"a kWh costs {self.price_a_kwh:g} {self.currency} (assumed)",
            f"a kWh emits {self.co2_g_a_kwh:g} g of CO2 (assumed)",
            "no node saves anything while it goes to sleep; no energy was metered",
        ]


@dataclass(frozen=True, slots=True)
class EnergySaved:
    """What was saved in `asleep_node_hours` with `nodes_woken` wake-ups of a node.

    `waking_kwh` is taken off already: what waking nodes used beyond idle ones. All with cooling;
    negative where waking cost more than sleeping saved.
    """

    asleep_node_hours: float
    nodes_woken: float
    kwh: float
    waking_kwh: float
    money: float
    co2_kg: float

    def document(self, assumptions: EnergyAssumptions) -> dict[str, object]:
        """The figures beside what they rest on."""
        return {**asdict(self), "assumptions": asdict(assumptions)}


def energy_saved(
    asleep_node_hours: float, nodes_woken: float, assumptions: EnergyAssumptions
) -> EnergySaved:
    """Against the same nodes idle. Hours asleep do not include those of waking up."""
    if asleep_node_hours < 0 or nodes_woken < 0:
        raise ValueError("hours asleep and wake-ups are not negative")
    factor = (1 + assumptions.cooling_factor) / 1000
    gross = asleep_node_hours * (assumptions.idle_w - assumptions.asleep_w) * factor
    more_w = assumptions.waking_w - assumptions.idle_w
    waking = nodes_woken * more_w * assumptions.wake_s / 3600 * factor
    kwh = gross - waking
    return EnergySaved(
        asleep_node_hours=asleep_node_hours,
        nodes_woken=nodes_woken,
        kwh=kwh,
        waking_kwh=waking,
        money=kwh * assumptions.price_a_kwh,
        co2_kg=kwh * assumptions.co2_g_a_kwh / 1000,
    )
