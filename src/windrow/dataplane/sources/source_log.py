"""The files of a micro-batch, from the logs in Spark's checkpoint. A micro-batch's DataFrame does not name them."""

from __future__ import annotations

import json
from pathlib import Path


def files_of_batch(checkpoint: Path, batch_id: int) -> list[str]:
    """The URIs of the files that a micro-batch reads; none if it does not come from files.

    `offsets` has the source's position at each micro-batch, `sources` the files up to it. Every tenth log of `sources`
    is a `.compact` one, which repeats the entries of all before it.
    """
    upto = position(checkpoint, batch_id)
    if upto is None:
        return []
    before, logs, found = position(checkpoint, batch_id - 1), checkpoint / "sources" / "0", []
    for number in range(-1 if before is None else before, upto):
        for line in log_lines(logs / f"{number + 1}") or log_lines(logs / f"{number + 1}.compact"):
            if f'"batchId":{number + 1}' in line:
                entry = json.loads(line)
                found += [entry["path"]] if entry["batchId"] == number + 1 else []
    return found


def log_lines(log: Path) -> list[str]:
    """The entries of a log; none if Spark has deleted it, since a compacted log then has them."""
    try:
        return log.read_text(encoding="utf-8").splitlines()[1:]
    except FileNotFoundError:
        return []


def position(checkpoint: Path, batch_id: int) -> int | None:
    """The source's position at the end of a micro-batch; None before the first."""
    try:
        text = (checkpoint / "offsets" / str(batch_id)).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    return int(json.loads(text.splitlines()[-1]).get("logOffset", -1))
