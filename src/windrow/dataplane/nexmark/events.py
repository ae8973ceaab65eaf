"""The events of NEXMark (Tucker et al., 2002), an auction site: persons, auctions and bids, in one sequence.

As in the generator that Apache Beam and Flink use, of 50 events the first is a person, the next three are auctions, and
46 are bids. Half of the bids are on a hot auction, three quarters of them by a hot bidder, and three quarters of the
auctions by a hot seller; a hot one is replaced after 100 others have come. A bid or an auction may name a person or an
auction that comes a little later. Prices are log-uniform from 1 to 1,000,000, in cents.

Every field is a hash of the seed and the event's number, so events are made in any pieces and always the same.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints: TypeAlias = npt.NDArray[np.int64]
Hashes: TypeAlias = npt.NDArray[np.uint64]

CYCLE = 50
PERSONS, AUCTIONS, BIDS = 1, 3, 46
"""Of the events of a cycle, in this order."""
FIRST_ID, FIRST_CATEGORY, CATEGORIES = 1000, 10, 5
HOT_EVERY = 100
"""A hot person or auction is the first (of bidders: the second) of so many."""
HOT_AUCTIONS, HOT_SELLERS, HOT_BIDDERS = 2, 4, 4
"""Of so many references, all but one are to a hot one."""
ACTIVE_PERSONS, OPEN_AUCTIONS, LEAD = 1000, 100, 10
"""References are to one of the latest so many, or to one of the next LEAD."""

_NAMES = [
    f"{first} {last}"
    for first in "Peter Paul Luke John Saul Vicky Kate Julie Sarah Deiter Walter".split()
    for last in "Shultz Abrams Spencer White Bartels Walton Smith Jones Noris".split()
]
_CITIES = "Phoenix,Los Angeles,San Francisco,Boise,Portland,Bend,Redmond,Seattle,Kent,Cheyenne".split(",")
_STATES = "AZ CA ID OR WA WY".split()
_HOT_CHANNELS = ["Google", "Facebook", "Baidu", "Apple"]
_OTHER_CHANNELS = 10_000

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15


@dataclass(frozen=True)
class EventSequence:
    """The whole sequence: event n happens n / `rate` seconds after `first_us`."""

    seed: int
    rate: int
    first_us: int

    def time_us(self, numbers: Ints) -> Ints:
        return self.first_us + numbers * 1_000_000 // self.rate

    def key(self, salt: str) -> int:
        return _mixed_int(self.seed * _GOLDEN + zlib.crc32(salt.encode()))


@dataclass(frozen=True)
class Events:
    """Some events of the sequence, all of one kind, by their numbers."""

    sequence: EventSequence
    numbers: Ints

    # -- draws -----------------------------------------------------------------------------------

    def hashes(self, salt: str, of: Ints | None = None) -> Hashes:
        """A hash of each event, or of each of these numbers. Other salts give other hashes."""
        numbers = self.numbers if of is None else of
        return _mixed(numbers.astype(np.uint64) * np.uint64(_GOLDEN) + np.uint64(self.sequence.key(salt)))

    def below(self, salt: str, bound: int | Ints, of: Ints | None = None) -> Ints:
        """Whole numbers from 0 to below the bound."""
        drawn: Ints = (self.hashes(salt, of) >> np.uint64(11)).astype(np.int64) % bound
        return drawn

    def prices(self, salt: str) -> Ints:
        uniform = (self.hashes(salt) >> np.uint64(11)).astype(np.float64) / (1 << 53)
        cents: Ints = np.rint(np.power(10.0, uniform * 6.0) * 100.0).astype(np.int64)
        return cents

    def one_of(self, salt: str, texts: Sequence[str]) -> pa.Array:
        return pa.array(texts, pa.string()).take(pa.array(self.below(salt, len(texts))))

    def letters(self, salt: str, least: int, most: int, of: Ints | None = None) -> pa.Array:
        """Small letters, between `least` and `most` of them."""
        pool = _pool()
        lengths = least + self.below(f"{salt} length", most - least + 1, of)
        ends = np.concatenate([[0], np.cumsum(lengths)])
        begins = self.below(salt, len(pool) - most, of)
        data = pool[np.arange(ends[-1]) + np.repeat(begins - ends[:-1], lengths)]
        return pa.StringArray.from_buffers(len(lengths), pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(data))

    # -- what there is so far --------------------------------------------------------------------

    @cached_property
    def times_us(self) -> Ints:
        return self.sequence.time_us(self.numbers)

    @cached_property
    def last_person(self) -> Ints:
        """The latest person up to each event, counted from 0."""
        return self.numbers // CYCLE * PERSONS

    @cached_property
    def last_auction(self) -> Ints:
        """The latest auction up to each event, counted from 0."""
        return self.numbers // CYCLE * AUCTIONS + np.clip(self.numbers % CYCLE - PERSONS, -1, AUCTIONS - 1)

    def persons(self, salt: str, hot: int, hot_one: int) -> Ints:
        """Ids of persons. Of `hot` references all but one are to person `hot_one` of the latest hundred."""
        active = np.minimum(self.last_person + 1, ACTIVE_PERSONS)
        any_one = self.last_person + 1 - active + self.below(salt, active + LEAD)
        favourite = self.last_person // HOT_EVERY * HOT_EVERY + hot_one
        return FIRST_ID + np.where(self.below(f"{salt} hot", hot) > 0, favourite, any_one)

    def auctions(self, salt: str) -> Ints:
        """Ids of auctions."""
        oldest = np.maximum(self.last_auction - OPEN_AUCTIONS, 0)
        any_one = oldest + self.below(salt, self.last_auction - oldest + 1 + LEAD)
        favourite = self.last_auction // HOT_EVERY * HOT_EVERY
        return FIRST_ID + np.where(self.below(f"{salt} hot", HOT_AUCTIONS) > 0, favourite, any_one)

    def expires_us(self) -> Ints:
        """Ends of auctions: on average when OPEN_AUCTIONS more have come."""
        later_us = self.sequence.time_us(self.numbers + OPEN_AUCTIONS * CYCLE // AUCTIONS)
        mean_ms = (later_us - self.times_us) // 1000
        return self.times_us + 1000 * (1 + self.below("expires", np.maximum(2 * mean_ms, 1)))

    @cached_property
    def channels(self) -> Ints:
        """The number of each bid's channel; those from _OTHER_CHANNELS on are hot."""
        hot = _OTHER_CHANNELS + self.below("hot channel", len(_HOT_CHANNELS))
        return np.where(self.below("channel hot", 2) > 0, hot, self.below("channel", _OTHER_CHANNELS))


Field: TypeAlias = tuple[str, Callable[[Events], "pa.Array | Ints"]]
"""The Spark SQL type of a field, and its values."""


@dataclass(frozen=True)
class EventKind:
    """The events from `first` on, `count` of each cycle."""

    name: str
    first: int
    count: int
    fields: Mapping[str, Field]

    def before(self, number: int) -> int:
        """How many events of the kind have a lower number."""
        cycles, rest = divmod(number, CYCLE)
        return cycles * self.count + min(max(rest - self.first, 0), self.count)

    def numbers(self, first: int, upto: int) -> Ints:
        """The numbers of the kind's events from `first` to below `upto`."""
        cycles, rest = np.divmod(np.arange(self.before(first), self.before(upto), dtype=np.int64), self.count)
        return cycles * CYCLE + self.first + rest


def columns_of(events: Events, kind: EventKind, names: Sequence[str]) -> list[pa.Array]:
    """The named fields of events, upper and lower case alike. A name that is no field's stands for their numbers."""
    return [_column(events, *kind.fields.get(name.lower(), _NUMBER)) for name in names]


def _column(events: Events, sql_type: str, make: Callable[[Events], pa.Array | Ints]) -> pa.Array:
    values = make(events)
    if sql_type == "TIMESTAMP":
        return pa.array(values, pa.int64()).cast(pa.timestamp("us", "UTC"))
    return values if isinstance(values, pa.Array) else pa.array(values, pa.int64())


# -- fields --------------------------------------------------------------------------------------


def _joined(parts: Sequence[pa.Array | str], between: str = "") -> pa.Array:
    return pc.binary_join_element_wise(*parts, between)


def _email(events: Events) -> pa.Array:
    return _joined([events.letters("user", 3, 7), "@", events.letters("host", 3, 5), ".com"])


def _credit_card(events: Events) -> pa.Array:
    groups = (pa.array(events.below(f"card {i}", 10_000)).cast(pa.string()) for i in range(4))
    return _joined([pc.utf8_lpad(group, 4, "0") for group in groups], " ")


def _channel(events: Events) -> pa.Array:
    is_hot = events.channels >= _OTHER_CHANNELS
    hot = pa.array(_HOT_CHANNELS).take(pa.array(np.where(is_hot, events.channels - _OTHER_CHANNELS, 0)))
    other = _joined(["channel-", pa.array(events.channels).cast(pa.string())])
    return pc.if_else(pa.array(is_hot), hot, other)


def _url(events: Events) -> pa.Array:
    """The address of a channel. Nine in ten of those that are not hot name their channel in it."""
    folders = [events.letters(f"folder {i}", 3, 5, events.channels) for i in range(3)]
    plain = _joined(["https://www.nexmark.com", *folders, "item.htm?query=1"], "/")
    named = (events.channels < _OTHER_CHANNELS) & (events.below("named", 10, events.channels) > 0)
    channel = pa.array(events.below("channel id", 1 << 31, events.channels)).cast(pa.string())
    return pc.if_else(pa.array(named), _joined([plain, "&channel_id=", channel]), plain)


def _filler(mean: int) -> Field:
    """Letters that bring an event to about the size that NEXMark asks for."""
    return ("STRING", lambda e: e.letters("extra", mean * 4 // 5, mean * 6 // 5))


_NUMBER: Field = ("BIGINT", lambda e: e.numbers)
_TIME: Field = ("TIMESTAMP", lambda e: e.times_us)

PERSON = EventKind(
    "person",
    0,
    PERSONS,
    {
        "id": ("BIGINT", lambda e: FIRST_ID + e.last_person),
        "name": ("STRING", lambda e: e.one_of("name", _NAMES)),
        "email_address": ("STRING", _email),
        "credit_card": ("STRING", _credit_card),
        "city": ("STRING", lambda e: e.one_of("city", _CITIES)),
        "state": ("STRING", lambda e: e.one_of("state", _STATES)),
        "date_time": _TIME,
        "extra": _filler(135),
    },
)
AUCTION = EventKind(
    "auction",
    PERSONS,
    AUCTIONS,
    {
        "id": ("BIGINT", lambda e: FIRST_ID + e.last_auction),
        "item_name": ("STRING", lambda e: e.letters("item", 3, 20)),
        "description": ("STRING", lambda e: e.letters("description", 3, 100)),
        "initial_bid": ("BIGINT", lambda e: e.prices("initial bid")),
        "reserve": ("BIGINT", lambda e: e.prices("initial bid") + e.prices("reserve")),
        "date_time": _TIME,
        "expires": ("TIMESTAMP", Events.expires_us),
        "seller": ("BIGINT", lambda e: e.persons("seller", HOT_SELLERS, 0)),
        "category": ("BIGINT", lambda e: FIRST_CATEGORY + e.below("category", CATEGORIES)),
        "extra": _filler(390),
    },
)
BID = EventKind(
    "bid",
    PERSONS + AUCTIONS,
    BIDS,
    {
        "auction": ("BIGINT", lambda e: e.auctions("auction")),
        "bidder": ("BIGINT", lambda e: e.persons("bidder", HOT_BIDDERS, 1)),
        "price": ("BIGINT", lambda e: e.prices("price")),
        "channel": ("STRING", _channel),
        "url": ("STRING", _url),
        "date_time": _TIME,
        "extra": _filler(68),
    },
)
KINDS = {kind.name: kind for kind in (PERSON, AUCTION, BID)}


# -- hashing -------------------------------------------------------------------------------------


def _mixed(values: Hashes) -> Hashes:
    """Each value with its bits mixed: the last step of SplitMix64 (Steele, Lea and Flood, 2014)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Hashes = values ^ (values >> np.uint64(31))
    return mixed


@cache
def _pool() -> npt.NDArray[np.uint8]:
    """Random letters, which texts are cut from."""
    hashes = _mixed(np.arange(1, 1 << 16, dtype=np.uint64) * np.uint64(_GOLDEN))
    letters: npt.NDArray[np.uint8] = (hashes % np.uint64(26)).astype(np.uint8) + np.uint8(ord("a"))
    return letters


def _mixed_int(value: int) -> int:
    return int(_mixed(np.array([value & _MASK], np.uint64))[0])
