"""Utilisation samples in compact blocks: 1000 samples at even intervals are one row.

Time is cut into a grid: sample number n of a series covers [n, n + 1) intervals since epoch 0, and
block b the numbers [1000 b, 1000 b + 1000). A value that is delivered falls into the sample of its
time. Where a sample has a value already, the greater one stays, so that what comes twice, late or
in another order gives the same rows. Values are kept as float32.

Samples of different intervals lie in different blocks. Thinning replaces old ones by means over
longer intervals and closes that time: a second delivery would change the means.
"""

from __future__ import annotations

import math
import sys
import zlib
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, Engine, delete, insert, select, update

from gsched.errors import DataError, UsageError
from gsched.model.samples import Appended, Sample, Series
from gsched_sql import schema
from gsched_sql.columns import text_digest
from gsched_sql.engine import reading, writing
from gsched_sql.inserts import next_id
from gsched_sql.names import chunks, cluster_id, intern
from gsched_sql.schema import sample_blocks as blocks
from gsched_sql.schema import series as table

BLOCK_SAMPLES = 1000
"""Samples of a block; with the interval in ms, its length in seconds is that number."""

_NONE = math.nan
_MAX_TIME = 2**40  # seconds until the year 36812
_BYTES = 4 * BLOCK_SAMPLES
_BLOCKS_AT_ONCE = 500  # thinned in one transaction

Key = tuple[int, int]
"""(interval_ms, start_time) of a block within its series."""


class SqlSamples:
    """The samples in one database. Every call is a transaction of its own."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def append(
        self, series: Series, interval_s: float, samples: Iterable[tuple[float, float]]
    ) -> Appended:
        """Keep (epoch seconds, value) pairs that were taken about every `interval_s` seconds.

        NaN is no value. Raises UsageError for an interval under a millisecond and for times that
        are none.
        """
        interval_ms = _milliseconds(interval_s)
        told = [(when, value) for when, value in samples if not math.isnan(value)]
        if not all(0 <= when < _MAX_TIME for when, _ in told):
            raise UsageError("a sample's time is not in epoch seconds")
        with writing(self._engine) as conn:
            row_id, thinned_before = _row(conn, series)
            taken = [  # + 0.0: of 0.0 and -0.0 none is the greater
                (round(when * 1000), value + 0.0) for when, value in told if when >= thinned_before
            ]
            _join(conn, row_id, interval_ms, taken)
        return Appended(len(taken), len(told) - len(taken))

    def read(self, series: Series, begin: float, end: float) -> list[Sample]:
        """The samples whose time is in [begin, end), by time; of whatever interval they are."""
        with reading(self._engine) as conn:
            cluster = cluster_id(conn, series.cluster)
            found = None if cluster is None else _find(conn, cluster, series)
            if found is None:
                return []
            c = blocks.c
            query = select(blocks).where(
                c.series_id == found[0], c.start_time < end, c.start_time + c.interval_ms > begin
            )
            listed = [
                Sample(when_ms / 1000, row.interval_ms / 1000, value)
                for row in conn.execute(query)
                for when_ms, value in _told(row)
            ]
        found_samples = (s for s in listed if begin <= s.time < end)
        return sorted(found_samples, key=lambda s: (s.time, s.interval_s))

    def series(self, cluster: str) -> list[Series]:
        """What is sampled on a cluster, sorted."""
        with reading(self._engine) as conn:
            known = cluster_id(conn, cluster)
            rows = conn.execute(select(table).where(table.c.cluster_id == known)).all()
        found = [Series(cluster, row.subject, row.metric, row.source) for row in rows]
        return sorted(found, key=lambda s: (s.subject, s.metric, s.source))

    def thin(self, cluster: str, before: int, interval_s: float) -> int:
        """Replace samples of times before `before` by their means over `interval_s` seconds.

        A mean is over the samples that are there. Only whole intervals before `before` are
        thinned, and only samples of shorter ones, in bounded transactions. Returns how many blocks
        have gone.
        """
        interval_ms = _milliseconds(interval_s)
        with reading(self._engine) as conn:
            query = select(table.c.id).where(table.c.cluster_id == cluster_id(conn, cluster))
            series_ids = conn.execute(query).scalars().all()
        gone = 0
        for series_id in series_ids:
            until: int | None = 0
            while until is not None:
                with writing(self._engine) as conn:
                    until = _next_cut(conn, series_id, until, before, interval_ms)
                    if until is not None:
                        gone += _thin(conn, series_id, until, interval_ms)
        return gone


def _milliseconds(interval_s: float) -> int:
    interval_ms = round(interval_s * 1000)
    if interval_ms < 1:
        raise UsageError(f"samples cannot be {interval_s} s apart", "a millisecond is the least")
    return interval_ms


def _find(conn: Connection, cluster: int, series: Series) -> tuple[int, int] | None:
    """The row of a series and until when it has been thinned."""
    c = table.c
    mine = (
        (c.cluster_id == cluster)
        & (c.subject_digest == text_digest(series.subject))
        & (c.metric == series.metric)
        & (c.source == series.source)
    )
    row = conn.execute(select(c.id, c.thinned_before).where(mine)).one_or_none()
    return None if row is None else (row.id, row.thinned_before)


def _row(conn: Connection, series: Series) -> tuple[int, int]:
    """The same as `_find`, made where there is none."""
    cluster = intern(conn, schema.clusters, [series.cluster])[series.cluster]
    found = _find(conn, cluster, series)
    if found is not None:
        return found
    row_id = next_id(conn, table)
    row = {
        "id": row_id,
        "cluster_id": cluster,
        "subject_digest": text_digest(series.subject),
        "subject": series.subject,
        "metric": series.metric,
        "source": series.source,
        "thinned_before": 0,
    }
    conn.execute(insert(table), [row])
    return row_id, 0


def _join(
    conn: Connection, series_id: int, interval_ms: int, samples: Sequence[tuple[int, float]]
) -> None:
    """Put values, by epoch milliseconds, into their blocks; the greater one of two stays."""
    told: dict[Key, list[tuple[int, float]]] = {}
    for when_ms, value in samples:
        block, place = divmod(when_ms // interval_ms, BLOCK_SAMPLES)
        told.setdefault((interval_ms, block * interval_ms), []).append((place, value))
    stored = _load(conn, series_id, interval_ms, [start for _, start in told])
    changed: dict[Key, array[float]] = {}
    for key, pairs in told.items():
        values = array("f", stored[key]) if key in stored else array("f", [_NONE]) * BLOCK_SAMPLES
        for place, value in pairs:
            if not values[place] >= value:  # also where there is none
                values[place] = value
        if key not in stored or stored[key].tobytes() != values.tobytes():
            changed[key] = values
    _write(conn, series_id, changed)


def _load(
    conn: Connection, series_id: int, interval_ms: int, starts: Sequence[int]
) -> dict[Key, array[float]]:
    found: dict[Key, array[float]] = {}
    c = blocks.c
    for some in chunks(sorted(starts)):
        mine = (c.series_id == series_id) & (c.interval_ms == interval_ms) & c.start_time.in_(some)
        for row in conn.execute(select(blocks).where(mine)):
            found[interval_ms, row.start_time] = unpacked(row.samples)
    return found


def _write(conn: Connection, series_id: int, changed: dict[Key, array[float]]) -> None:
    """Replace blocks."""
    c = blocks.c
    for interval_ms, start in changed:
        mine = (c.series_id == series_id) & (c.interval_ms == interval_ms)
        conn.execute(delete(blocks).where(mine, c.start_time == start))
    rows = [
        {
            "series_id": series_id,
            "interval_ms": interval_ms,
            "start_time": start,
            "num_samples": sum(not math.isnan(value) for value in values),
            "samples": packed(values),
        }
        for (interval_ms, start), values in changed.items()
    ]
    rows = [row for row in rows if row["num_samples"]]
    if rows:
        conn.execute(insert(blocks), rows)


def _next_cut(
    conn: Connection, series_id: int, after: int, before: int, interval_ms: int
) -> int | None:
    """Up to when to thin in the next transaction; None when all from `after` to `before` is."""
    c = blocks.c
    mine = (c.series_id == series_id) & (c.interval_ms < interval_ms) & (c.start_time < before)
    query = select(c.start_time).where(mine, c.start_time + c.interval_ms > after)
    starts = conn.execute(query.order_by(c.start_time).limit(_BLOCKS_AT_ONCE)).scalars().all()
    if not starts:
        return None
    last = _aligned(before, interval_ms)
    until = last
    if len(starts) == _BLOCKS_AT_ONCE:
        cut = _aligned(starts[-1], interval_ms)
        if cut <= max(after, starts[0]):  # they lie too close together: the first one behind them
            cut = _aligned(max(after, starts[-1]), interval_ms) + _step(interval_ms)
        until = min(last, cut)
    return until if until > after else None


def _aligned(when: int, interval_ms: int) -> int:
    """The last second up to `when` at which a sample of that interval begins."""
    return when // _step(interval_ms) * _step(interval_ms)


def _step(interval_ms: int) -> int:
    """The seconds from one such to the next."""
    return interval_ms // math.gcd(interval_ms, 1000)


def _thin(conn: Connection, series_id: int, until: int, interval_ms: int) -> int:
    """Thin what is before `until`; returns how many blocks have gone."""
    c = blocks.c
    old = (c.series_id == series_id) & (c.interval_ms < interval_ms) & (c.start_time < until)
    sums: dict[int, tuple[float, int]] = {}
    rest: dict[Key, array[float]] = {}
    for row in conn.execute(select(blocks).where(old)).all():
        kept = unpacked(row.samples)
        for place in _places(kept):
            when_ms = row.start_time * 1000 + place * row.interval_ms
            if when_ms < until * 1000:
                number = when_ms // interval_ms
                total, count = sums.get(number, (0.0, 0))
                sums[number] = (total + kept[place], count + 1)
                kept[place] = _NONE
        rest[row.interval_ms, row.start_time] = kept
    _write(conn, series_id, rest)
    means = [(n * interval_ms, total / count) for n, (total, count) in sums.items()]
    _join(conn, series_id, interval_ms, means)
    mark = (table.c.id == series_id) & (table.c.thinned_before < until)
    conn.execute(update(table).where(mark).values(thinned_before=until))
    return sum(all(map(math.isnan, values)) for values in rest.values())


def _told(row: Any) -> Iterator[tuple[int, float]]:
    """The samples of a row of `sample_blocks` that are there, by epoch milliseconds."""
    values = unpacked(row.samples)
    for place in _places(values):
        yield row.start_time * 1000 + place * row.interval_ms, values[place]


def _places(values: Sequence[float]) -> list[int]:
    return [place for place, value in enumerate(values) if not math.isnan(value)]


def packed(values: array[float]) -> bytes:
    """A block as stored."""
    return zlib.compress(_little_endian(values).tobytes())


def unpacked(stored: bytes) -> array[float]:
    """The reverse of `packed`. Raises DataError for bytes that are no block."""
    inflate = zlib.decompressobj()
    try:
        data = inflate.decompress(stored, _BYTES + 1)
    except zlib.error as e:
        raise DataError(f"a block of samples is damaged: {e}") from e
    if len(data) != _BYTES or not inflate.eof:
        raise DataError("a block of samples is damaged: it has not the length of 1000 samples")
    values = array("f")
    values.frombytes(data)
    return _little_endian(values)


def _little_endian(values: array[float]) -> array[float]:
    if sys.byteorder == "little":
        return values
    swapped = array("f", values)
    swapped.byteswap()
    return swapped
