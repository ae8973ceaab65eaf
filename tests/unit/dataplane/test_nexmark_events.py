"""The NEXMark generator: proportions, references between events, and the same events in any pieces; and how far the
source says that the sequence has come."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from windrow.catalog.definitions import StreamDef, define_stream
from windrow.cql import parse_one
from windrow.dataplane.nexmark.events import (
    AUCTION,
    BID,
    KINDS,
    PERSON,
    EventKind,
    Events,
    EventSequence,
    columns_of,
)
from windrow.dataplane.nexmark.reader import NexmarkOptions, NexmarkReader
from windrow.dataplane.sources import nexmark
from windrow.errors import SourceError

S = 1_000_000
NUMBER = "__pos0"
SEQUENCE = EventSequence(seed=7, rate=100, first_us=1_767_225_600 * S)


def table(kind: EventKind, first: int, upto: int, sequence: EventSequence = SEQUENCE) -> pa.Table:
    names = list(kind.fields)
    return pa.table(columns_of(Events(sequence, kind.numbers(first, upto)), kind, names), names=names)


def column(kind: EventKind, name: str, upto: int) -> Any:
    return table(kind, 0, upto).column(name).to_numpy()


def test_proportions() -> None:
    assert [len(kind.numbers(0, 50_000)) for kind in (PERSON, AUCTION, BID)] == [1_000, 3_000, 46_000]
    assert [kind.numbers(0, 55).tolist()[:3] for kind in (PERSON, AUCTION, BID)] == [[0, 50], [1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize(("first", "upto"), [(0, 0), (0, 1), (1, 4), (3, 53), (49, 51), (123, 777)])
def test_every_event_has_one_kind(first: int, upto: int) -> None:
    numbers = np.concatenate([kind.numbers(first, upto) for kind in KINDS.values()])
    assert sorted(numbers.tolist()) == list(range(first, upto))


@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
def test_pieces_and_seeds(kind: EventKind) -> None:
    whole = table(kind, 0, 2_000)
    assert pa.concat_tables([table(kind, 0, 333), table(kind, 333, 1_717), table(kind, 1_717, 2_000)]).equals(whole)
    other = table(kind, 0, 2_000, replace(SEQUENCE, seed=8))
    same = {name for name in kind.fields if other.column(name).equals(whole.column(name))}
    assert same == {"date_time"} | ({"id"} if "id" in kind.fields else set())


def test_ids_count_on() -> None:
    assert column(PERSON, "id", 1_000).tolist() == list(range(1_000, 1_020))
    assert column(AUCTION, "id", 1_000).tolist() == list(range(1_000, 1_060))


@pytest.mark.parametrize(
    ("kind", "name", "owners"),
    [(AUCTION, "seller", PERSON), (BID, "bidder", PERSON), (BID, "auction", AUCTION)],
    ids=["seller", "bidder", "auction"],
)
def test_references_are_to_known_events(kind: EventKind, name: str, owners: EventKind) -> None:
    """All but the few that come a little later are there already, and the others come."""
    numbers, named = kind.numbers(0, 20_000), column(kind, name, 20_000)
    there = 1_000 + np.array([owners.before(int(n) + 1) for n in numbers])
    assert (named >= 1_000).all() and (named < there + 11).all()
    assert (named >= there).mean() < 0.15
    assert set(named.tolist()) <= set(column(owners, "id", 21_000).tolist())


def test_hot_ones() -> None:
    numbers, bids = BID.numbers(0, 100_000), table(BID, 0, 100_000)
    auctions, persons = numbers // 50 * 3 + 2, numbers // 50
    assert np.mean(bids.column("auction").to_numpy() == 1_000 + auctions // 100 * 100) == pytest.approx(0.5, abs=0.02)
    assert np.mean(bids.column("bidder").to_numpy() == 1_001 + persons // 100 * 100) == pytest.approx(0.75, abs=0.02)
    sellers = column(AUCTION, "seller", 100_000)
    assert np.mean(sellers % 100 == 0) == pytest.approx(0.75, abs=0.03)
    hot = pc.is_in(bids.column("channel"), value_set=pa.array(["Google", "Facebook", "Baidu", "Apple"]))
    assert np.mean(hot.to_numpy()) == pytest.approx(0.5, abs=0.02)


def test_prices_are_log_uniform() -> None:
    logs = np.log10(column(BID, "price", 100_000) / 100)
    assert logs.min() >= 0 and logs.max() <= 6
    assert np.quantile(logs, [0.25, 0.5, 0.75]) == pytest.approx([1.5, 3.0, 4.5], abs=0.05)
    auctions = table(AUCTION, 0, 10_000)
    assert pc.all(pc.greater(auctions.column("reserve"), auctions.column("initial_bid"))).as_py()


def test_times() -> None:
    times = np.concatenate([column(kind, "date_time", 5_000).astype(np.int64) for kind in KINDS.values()])
    assert sorted(times.tolist()) == [SEQUENCE.first_us + n * 10_000 for n in range(5_000)]
    auctions = table(AUCTION, 0, 50_000)
    lengths_us = auctions.column("expires").to_numpy().astype(np.int64) - auctions.column(
        "date_time"
    ).to_numpy().astype(np.int64)
    assert lengths_us.min() > 0 and lengths_us.max() <= 2 * 16_660_000 + 1_000
    assert lengths_us.mean() == pytest.approx(16_660_000, rel=0.05)


def test_texts() -> None:
    bids, persons = table(BID, 0, 5_000), table(PERSON, 0, 5_000)
    urls = bids.group_by("channel").aggregate([("url", "count_distinct")])
    assert set(urls.column("url_count_distinct").to_pylist()) == {1}, "a channel has one address"
    assert pc.all(pc.match_substring_regex(persons.column("credit_card"), r"^(\d{4} ){3}\d{4}$")).as_py()
    assert pc.all(pc.match_substring_regex(persons.column("email_address"), r"^[a-z]{3,7}@[a-z]{3,5}\.com$")).as_py()
    sizes = {kind.name: sum(_bytes(c) for c in table(kind, 0, 20_000).columns) for kind in KINDS.values()}
    means = {name: size / len(KINDS[name].numbers(0, 20_000)) for name, size in sizes.items()}
    assert means == {
        "person": pytest.approx(200, rel=0.1),
        "auction": pytest.approx(500, rel=0.1),
        "bid": pytest.approx(150, rel=0.2),
    }


def _bytes(values: pa.ChunkedArray) -> int:
    return pc.sum(pc.binary_length(values)).as_py() if pa.types.is_string(values.type) else 8 * len(values)


# -- the source ------------------------------------------------------------------------------------


class Watch:
    """A clock that is set by hand."""

    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def reader(events: int | None, watch: Watch, per_batch: int = 1_000_000) -> NexmarkReader:
    options = NexmarkOptions(BID, SEQUENCE, events, per_batch)
    return NexmarkReader(options, 2, ["price", NUMBER], watch)


def upto(source: NexmarkReader, first: int) -> int:
    return source.latestOffset({"event": first}, source.getDefaultReadLimit())["event"]


def test_endless_events_come_at_the_rate() -> None:
    watch = Watch()
    source = reader(None, watch)
    assert upto(source, 5_000) == 5_000, "after a restart it goes on from where it was"
    watch.now_s += 2.5
    assert upto(source, 5_000) == 5_250
    watch.now_s += 1
    assert upto(source, 5_250) == 5_350
    assert upto(reader(None, watch, per_batch=10), 0) == 0


def test_a_micro_batch_is_bounded() -> None:
    watch = Watch()
    slow, source = reader(None, watch, per_batch=30), reader(100, watch, per_batch=30)
    assert upto(slow, 0) == 0
    watch.now_s += 60
    assert upto(slow, 0) == 30
    assert [upto(source, first) for first in (0, 30, 90, 100)] == [30, 60, 100, 100]
    assert source.latestOffset({"event": 0}, ReadAllAvailable()) == {"event": 100}


def test_available_now() -> None:
    watch = Watch()
    endless, bounded = reader(None, watch), reader(100, watch)
    for source in (endless, bounded):
        source.prepareForTriggerAvailableNow()
    watch.now_s += 60
    assert upto(endless, 40) == 40, "nothing of an endless sequence waits"
    assert upto(bounded, 40) == 100


def test_tasks_make_all_events_once() -> None:
    source = reader(None, Watch())
    parts = source.partitions({"event": 7}, {"event": 200_123})
    assert len(parts) == 2
    made = pa.Table.from_batches([batch for part in parts for batch in source.read(part)])
    assert made.column(NUMBER).to_pylist() == BID.numbers(7, 200_123).tolist()
    assert made.column("price").equals(table(BID, 7, 200_123).column("price"))
    assert source.partitions({"event": 7}, {"event": 7}) == []


# -- options ---------------------------------------------------------------------------------------


def stream(options: str, name: str = "bid", columns: str = "price BIGINT, date_time TIMESTAMP") -> StreamDef:
    options = options and f"OPTIONS ({options})"
    return define_stream(parse_one(f"CREATE STREAM {name} ({columns}) FROM nexmark {options}"))


def test_options() -> None:
    plain = nexmark.options_of(stream(""))
    assert plain == NexmarkOptions(BID, EventSequence(1, 1_000, 1_767_225_600 * S), None, 1_000_000)
    given = "KIND 'Auction', rate '20', events '99', seed '3', first_event_time '1970-01-01 01:00:01+01:00'"
    made = nexmark.options_of(stream(f"{given}, maxeventspertrigger '10'", name="offers"))
    assert made == NexmarkOptions(AUCTION, EventSequence(3, 20, S), 99, 10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("rate '0'", "option rate is '0'"),
        ("rate '1.5'", "option rate is '1.5'"),
        ("rate '2000000000'", "option rate is"),
        ("events '-1'", "option events is '-1'"),
        ("events 'many'", "option events is 'many'"),
        ("seed 'x'", "option seed is 'x'"),
        ("maxEventsPerTrigger '0'", "option maxEventsPerTrigger is '0'"),
        ("first_event_time 'noon'", "option first_event_time is 'noon'"),
        ("kind 'bids'", "option kind is 'bids'"),
        ("speed '3'", "'bid': nexmark has no option 'speed'"),
    ],
)
def test_bad_options(options: str, message: str) -> None:
    with pytest.raises(SourceError, match=message) as refused:
        nexmark.check(stream(options))
    assert refused.value.remedy


def test_bad_streams() -> None:
    with pytest.raises(SourceError, match="'offers': neither its name nor an option says which events it has"):
        nexmark.check(stream("", name="offers"))
    for columns in ("seller BIGINT", "price INT"):
        with pytest.raises(SourceError, match="'bid': bid has no field") as refused:
            nexmark.check(stream("", columns=columns))
        assert "auction BIGINT, bidder BIGINT, price BIGINT" in str(refused.value)
    nexmark.check(stream("", name="Bid", columns="PRICE BIGINT"))
