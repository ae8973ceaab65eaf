"""A histogram of lateness, from which a slack can be chosen (Li et al., SIGMOD 2005, section 7).

The lateness of a tuple is its distance below the greatest point of the earlier micro-batches: with slack d a tuple is
late exactly if its lateness exceeds d. There are eight buckets for every doubling of the lateness, so the histogram is
small and a slack read from it is at most an eighth too large.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from windrow.windows.contexts import Points

_FINE = 3
"""How many bits after the leading one a bucket keeps."""


def bucket_of(lateness: Points) -> Points:
    """The bucket of each lateness; bucket 0 is in time."""
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
    """The greatest lateness that belongs to a bucket."""
    if bucket < 1 << (_FINE + 1):
        return bucket
    shift, fine = divmod(bucket, 1 << _FINE)
    return ((fine + (1 << _FINE) + 1) << (shift - 1)) - 1


@dataclass(frozen=True)
class Lateness:
    """The number of tuples per bucket, and the greatest lateness."""

    counts: Mapping[int, int] = field(default_factory=dict)
    greatest: int = 0

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def after(self, lateness: Points, counts: Points) -> Lateness:
        """The histogram with `counts[i]` more tuples of lateness `lateness[i]`."""
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
        """The histogram as JSON."""
        return {"counts": sorted(self.counts.items()), "greatest": self.greatest}

    @classmethod
    def restored(cls, saved: Mapping[str, Any]) -> Lateness:
        return cls(dict(saved["counts"]), saved["greatest"])

    def slack_for(self, share: float) -> int:
        """A slack with which at least this share of the tuples is in time; never above the greatest lateness."""
        wanted, held = share * self.total, 0
        for bucket in sorted(self.counts):
            held += self.counts[bucket]
            if held >= wanted:
                return self.most(bucket)
        return self.greatest

    def most(self, bucket: int) -> int:
        """The greatest lateness that a tuple in this bucket can have."""
        return min(most_in(bucket), self.greatest)
