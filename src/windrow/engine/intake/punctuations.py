"""Punctuations as text: patterns that the source sent (PUNCTUATE BY SOURCE), and those that wait behind fed rows."""

from __future__ import annotations

import json
import logging
from dataclasses import replace

from windrow.catalog.definitions import StreamDef
from windrow.cql.patterns import OF_A_PART, BadPatternError, parse_pattern, pattern_text
from windrow.dataplane.ingest.job import MALFORMED_PUNCTUATION, PUNCTUATION
from windrow.dataplane.ingest.preaggregate import DeadLetter, Deposit
from windrow.windows.promises import Announcement, Promise, all_told, told_by

log = logging.getLogger("windrow")


def heard(deposit: Deposit, stream: StreamDef) -> tuple[Deposit, Announcement, tuple[DeadLetter, ...]]:
    """The deposit without its punctuations, what these say, and those that say nothing that can be understood."""
    if stream.punctuation is None:
        return deposit, Announcement(), ()
    found = [letter for letter in deposit.dead if letter.reason == PUNCTUATION]
    told, malformed, types = [], [], dict(stream.columns)
    for letter in found:
        try:
            said = told_by(parse_pattern(letter.record or "", types), stream.axes)
            if said.promises and stream.revises:
                raise BadPatternError(OF_A_PART, "rows that were answered early could not be corrected")
            told.append(said)
        except BadPatternError as error:
            log.warning("stream '%s': %r is no punctuation: %s", stream.name, letter.record, error)
            malformed.append(replace(letter, reason=f"{MALFORMED_PUNCTUATION}: {error.reason}"))
    others = tuple(letter for letter in deposit.dead if letter.reason != PUNCTUATION)
    return replace(deposit, dead=others), all_told(told), tuple(malformed)


def text_of(told: Announcement) -> str:
    """What punctuations say, as it waits in the spool."""
    promises = [[one.axis, pattern_text(one.conditions), one.bound] for one in told.promises]
    return json.dumps({"frontiers": dict(told.frontiers), "promises": promises})


def told_in(text: str, stream: StreamDef) -> Announcement:
    """The same, read back."""
    saved, types = json.loads(text), dict(stream.columns)
    promises = ((axis, parse_pattern(conditions, types), bound) for axis, conditions, bound in saved["promises"])
    return Announcement(saved["frontiers"], tuple(Promise(*one) for one in promises))
