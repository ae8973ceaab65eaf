"""Punctuations as text: patterns from the source (PUNCTUATE BY SOURCE), and those that wait in the spool."""

from __future__ import annotations

import json
import logging
from dataclasses import replace

from windrow.catalog.definitions import StreamDef
from windrow.cql.patterns import OF_A_PART, BadPatternError, parse_pattern, pattern_text
from windrow.dataplane.ingest.admission import MALFORMED_PUNCTUATION, PUNCTUATION
from windrow.dataplane.ingest.deposit import DeadLetter, Deposit
from windrow.windows.promises import Announcement, Promise, announced_by, united

log = logging.getLogger("windrow")


def split_punctuations(deposit: Deposit, stream: StreamDef) -> tuple[Deposit, Announcement, tuple[DeadLetter, ...]]:
    """The deposit without its punctuations, what they announce, and those that are malformed."""
    if stream.punctuation is None:
        return deposit, Announcement(), ()
    found = [letter for letter in deposit.dead if letter.reason == PUNCTUATION]
    announced, malformed, types = [], [], dict(stream.columns)
    for letter in found:
        try:
            said = announced_by(parse_pattern(letter.record or "", types), stream.axes)
            if said.promises and stream.revises:
                raise BadPatternError(OF_A_PART, "rows that were answered early could not be corrected")
            announced.append(said)
        except BadPatternError as error:
            log.warning("stream '%s': %r is not a punctuation: %s", stream.name, letter.record, error)
            malformed.append(replace(letter, reason=f"{MALFORMED_PUNCTUATION}: {error.reason}"))
    others = tuple(letter for letter in deposit.dead if letter.reason != PUNCTUATION)
    return replace(deposit, dead=others), united(announced), tuple(malformed)


def text_of(announced: Announcement) -> str:
    """An announcement as text for the spool."""
    promises = [[one.axis, pattern_text(one.conditions), one.bound] for one in announced.promises]
    return json.dumps({"frontiers": dict(announced.frontiers), "promises": promises})


def announcement_in(text: str, stream: StreamDef) -> Announcement:
    """The announcement in a text of `text_of`."""
    saved, types = json.loads(text), dict(stream.columns)
    promises = ((axis, parse_pattern(conditions, types), bound) for axis, conditions, bound in saved["promises"])
    return Announcement(saved["frontiers"], tuple(Promise(*one) for one in promises))
