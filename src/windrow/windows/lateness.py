"""How late tuples come: a histogram from which a slack can be chosen (003_7281f3198fa2d2a0.txt, section 7).

Lateness is how far a tuple lies below the greatest point of the micro-batches before: with slack d a tuple is late
exactly when its lateness exceeds d. Buckets grow with the lateness, eight for every doubling, so the histogram is small
and a slack read off it is at most an eighth too large.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from windrow.windows.contexts import Points

_FINE = 3
"""Bits below the leading one that a bucket keeps."""


def bucket_of(lateness: Points) -> Points:
    """The bucket of each lateness; 0 is in time."""
    late = np.maximum(lateness, 0)
    bits = np.zeros(late.size, np.int64)
    rest = late.copy()
    for step in (32, 16, 8, 4, 2, 1):
        high = rest >= np.int64(1) << step
        bits[high] += step
        rest[high] >>= step
    shift = np.maximum(bits - _FINE, 0)
    return np.where(late < 1 << (_FINE + 1), late, (shift + 1) * (1 << _FINE) + (late >> shift) - (1 << _FINE))


def most_in(bucket: int) -> int:
    """The greatest lateness that falls into a bucket."""
    if bucket < 1 << (_FINE + 1):
        return bucket
    shift, fine = divmod(bucket, 1 << _FINE)
    return ((fine + (1 << _FINE) + 1) << (shift - 1)) - 1


@dataclass(frozen=True)
class Lateness:
    """Tuples by bucket, and the greatest lateness of all."""

    counts: Mapping[int, int] = field(default_factory=dict)
    greatest: int = 0

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def after(self, lateness: Points, counts: Points) -> Lateness:
        """With these many more tuples, so late."""
        if not lateness.size:
            return self
        if int(lateness.max()) <= 0:
            in_time = self.counts.get(0, 0) + int(counts.sum())
            return Lateness({**self.counts, 0: in_time}, self.greatest)
        buckets, at = np.unique(bucket_of(lateness), return_inverse=True)
        added = np.bincount(at, counts, buckets.size).astype(np.int64)
        grown = dict(self.counts)
        for bucket, count in zip(buckets.tolist(), added.tolist(), strict=True):
            grown[bucket] = grown.get(bucket, 0) + count
        return Lateness(grown, max(self.greatest, int(lateness.max()), 0))

    def saved(self) -> dict[str, Any]:
        """As JSON takes it."""
        return {"counts": sorted(self.counts.items()), "greatest": self.greatest}

    @classmethod
    def restored(cls, saved: Mapping[str, Any]) -> Lateness:
        return cls(dict(saved["counts"]), saved["greatest"])

    def slack_for(self, share: float) -> int:
        """A slack that keeps at least this share of the tuples; all of them: the greatest lateness itself."""
        wanted, held = share * self.total, 0
        for bucket in sorted(self.counts):
            held += self.counts[bucket]
            if held >= wanted:
                return self.most(bucket)
        return self.greatest

    def most(self, bucket: int) -> int:
        """The greatest lateness that a tuple of a bucket can have had."""
        return min(most_in(bucket), self.greatest)
