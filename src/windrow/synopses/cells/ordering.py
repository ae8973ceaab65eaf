"""Doubles as order-preserving int64 codes, so that MIN and MAX are integer folds.

Doubles follow Spark: −0.0 equals 0.0, NaN equals NaN and is above everything.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.int64]
_NAN_CODE = np.iinfo(np.int64).max - 1
_FLIP = np.int64(0x7FFFFFFFFFFFFFFF)


def encode_doubles(values: npt.NDArray[np.float64]) -> Codes:
    """IEEE-754 bits; negatives are flipped so that integer order is numeric order."""
    bits = (values + 0.0).view(np.int64)
    return np.where(np.isnan(values), _NAN_CODE, np.where(bits >= 0, bits, bits ^ _FLIP))


def decode_doubles(codes: Codes) -> npt.NDArray[np.float64]:
    bits = np.where(codes >= 0, codes, codes ^ _FLIP)
    return np.where(codes == _NAN_CODE, np.nan, bits.view(np.float64))
