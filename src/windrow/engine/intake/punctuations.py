"""Punctuations that the source sent (PUNCTUATE BY SOURCE): the patterns of a micro-batch, read."""

from __future__ import annotations

import logging
from dataclasses import replace

from windrow.catalog.definitions import StreamDef
from windrow.cql.patterns import OF_A_PART, BadPatternError, parse_pattern
from windrow.dataplane.ingest.job import MALFORMED_PUNCTUATION, PUNCTUATION
from windrow.dataplane.ingest.preaggregate import DeadLetter, Deposit
from windrow.windows.promises import Told, all_told, told_by

log = logging.getLogger("windrow")


def heard(deposit: Deposit, stream: StreamDef) -> tuple[Deposit, Told, tuple[DeadLetter, ...]]:
    """The deposit without its punctuations, what these say, and those that say nothing that can be understood."""
    if stream.punctuation is None:
        return deposit, Told(), ()
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
