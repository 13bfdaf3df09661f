"""Numbers in words, as the answers about one job use them."""

from __future__ import annotations

from datetime import datetime

from gsched.model.job import UNLIMITED_S


def count(number: int, what: str) -> str:
    """``1 node``, ``3 nodes``."""
    return f"{number} {what}" + ("" if number == 1 else "s")


def size(num_bytes: float) -> str:
    """Bytes in a unit that keeps the number short: ``500 MiB``, ``1.5 TiB``."""
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    power = 0
    while abs(num_bytes) >= 1024 and power < len(units) - 1:
        num_bytes, power = num_bytes / 1024, power + 1
    number = f"{num_bytes:.0f}" if num_bytes >= 100 else f"{num_bytes:.1f}".removesuffix(".0")
    return f"{number} {units[power]}"


def short_time(seconds: float) -> str:
    """A duration as Slurm writes it: ``0:42``, ``1:02:03``, ``2-03:00:00``, ``UNLIMITED``."""
    if seconds >= UNLIMITED_S:
        return "UNLIMITED"
    minutes, secs = divmod(round(seconds), 60)
    hours, mins = divmod(minutes, 60)
    days, hrs = divmod(hours, 24)
    if days:
        return f"{days}-{hrs:02}:{mins:02}:{secs:02}"
    return f"{hrs}:{mins:02}:{secs:02}" if hrs else f"{mins}:{secs:02}"


def moment(epoch: float, timespec: str = "seconds") -> str:
    """Epoch seconds as local ISO 8601 with offset, to the second or the minute (``minutes``)."""
    return datetime.fromtimestamp(epoch).astimezone().isoformat(timespec=timespec)


def percent(ratio: float) -> str:
    """``7.3 %``, ``98 %``."""
    return f"{100 * ratio:.0f} %" if ratio >= 0.0995 else f"{100 * ratio:.1f} %"
