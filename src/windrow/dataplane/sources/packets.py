"""Simulated IP packet headers (Golab et al., 2005, section 5.1), made by Spark expressions at any rate.

Every field is a hash of the packet's number, so a replay gives the same packets; each `link` has packets of its own.
Addresses take one of a thousand values each, the data size is 1 to 100, and with `burst` f the rate of a second
deviates from the steady rate by up to that factor.
"""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from windrow.catalog.definitions import StreamDef
from windrow.cql.names import quote_name
from windrow.dataplane.sources.rate import check_number
from windrow.errors import SourceError
from windrow.settings import Settings

_PROTOCOLS = "array('tcp', 'tcp', 'tcp', 'tcp', 'tcp', 'tcp', 'udp', 'udp', 'udp', 'icmp')"


def _draw(salt: int, bound: str) -> str:
    return f"CAST(pmod(xxhash64(value, {salt}{{link}}), {bound}) AS INT)"


def _address(salt: int) -> str:
    host = _draw(salt, "{hosts}")
    return f"concat('10.0.', CAST({host} DIV 250 AS STRING), '.', CAST({host} % 250 + 1 AS STRING))"


_FIELDS = {
    "ts": ("TIMESTAMP", "timestamp"),
    "proto": ("STRING", f"element_at({_PROTOCOLS}, {_draw(1, '10')} + 1)"),
    "src": ("STRING", _address(2)),
    "dst": ("STRING", _address(3)),
    "header_size": ("INT", f"20 + 4 * {_draw(4, '11')}"),
    "length": ("INT", f"{_draw(5, '100')} + 1"),
    "flags": ("INT", _draw(6, "64")),
    "ttl": ("INT", f"{_draw(7, '255')} + 1"),
    "checksum": ("INT", _draw(8, "65536")),
}
_OPTIONS = {"rate": 1000, "hosts": 1000, "burst": 1, "link": 1}
_MOST = 1_000_000_000


def _options(stream: StreamDef) -> dict[str, int]:
    found = dict(_OPTIONS)
    for name, value in stream.statement.options:
        if name.lower() not in _OPTIONS:
            raise SourceError(
                f"packets has no option '{name}'",
                remedy="Options: rate (packets per second), hosts (addresses), burst (1: steady), link; whole numbers.",
            )
        check_number(name, value, _MOST)
        found[name.lower()] = int(value)
    return found


def check(stream: StreamDef) -> None:
    _options(stream)
    for name, kind in stream.columns:
        if name.lower() not in _FIELDS or _FIELDS[name.lower()][0] != kind.name:
            known = ", ".join(f"{n} {t}" for n, (t, _) in _FIELDS.items())
            raise SourceError(f"a packet has no field '{name}' of type {kind}", remedy=f"Fields: {known}.")


def open_packets(spark: SparkSession, stream: StreamDef, settings: Settings, spool_dir: Path) -> DataFrame:
    options = _options(stream)
    rows = spark.readStream.format("rate").option("rowsPerSecond", options["rate"] * options["burst"]).load()
    if options["burst"] > 1:
        # Each second has a factor from 1 to burst; factor / burst of its numbers become packets.
        share = f"(pmod(xxhash64(unix_seconds(timestamp)), {options['burst']}) + 1)"
        rows = rows.where(f"pmod(xxhash64(value, 9), {options['burst']}) < {share}")
    link = "" if options["link"] == 1 else f", {options['link']}"
    values = {"{hosts}": str(options["hosts"]), "{link}": link}
    return rows.selectExpr(*(f"{_field(name, values)} AS {quote_name(name)}" for name, _ in stream.columns))


def _field(name: str, values: dict[str, str]) -> str:
    text = _FIELDS[name.lower()][1]
    for mark, value in values.items():
        text = text.replace(mark, value)
    return text
