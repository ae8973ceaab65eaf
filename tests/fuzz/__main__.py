"""`python -m fuzz statements|records`: any number of cases by hand. Exits with 1 if one has a wrong outcome."""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import windrow
from fuzz.answers import compare, is_comparable
from fuzz.record_streams import FORMATS, fuzz_format
from fuzz.statements import Target, fuzz, statement
from windrow.dataplane.session import close_session, open_session
from windrow.settings import Settings

BATCH = 150
"""How many queries run in one engine."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("what", choices=("statements", "records"))
    parser.add_argument("--count", type=int, default=10_000, help="how many; default 10,000")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first statement")
    parser.add_argument("--compared", type=int, default=BATCH, help="how many accepted queries to compare; default 150")
    parser.add_argument("--show", action="store_true", help="print the statements, and try none")
    given = parser.parse_args()
    if given.show:
        for number in range(given.first, given.first + given.count):
            print(f"{number}: {statement(given.seed, number)}")
        return 0
    logging.getLogger("windrow").setLevel(logging.CRITICAL)
    spark = open_session(None, "local[2]", Settings())
    spark.conf.set("spark.sql.shuffle.partitions", 2)
    with tempfile.TemporaryDirectory() as directory:
        run = _statements if given.what == "statements" else _records
        wrong = run(given, spark, Path(directory))
    close_session(spark)
    for one in wrong:
        print(f"\n{one}", file=sys.stderr)
    return 1 if wrong else 0


def _statements(given: argparse.Namespace, spark: Any, directory: Path) -> list[str]:
    begun = time.monotonic()
    with windrow.open(directory / "tried", spark=spark) as wr:
        numbers = range(given.first, given.first + given.count)
        tally = fuzz(Target(wr), given.seed, numbers, lambda so_far: print(so_far, flush=True))
    print(f"{tally}; {time.monotonic() - begun:.0f} s", flush=True)
    wrong = [str(finding) for finding in tally.findings]
    queries = [(number, query) for number, query in tally.accepted if is_comparable(query)][: given.compared]
    for at in range(0, len(queries), BATCH):
        mode = "spark" if at % (2 * BATCH) else "driver"
        compared = compare(queries[at : at + BATCH], given.seed, spark, directory / str(at), mode)
        print(f"{compared}; {time.monotonic() - begun:.0f} s", flush=True)
        wrong += compared.different
    return wrong


def _records(given: argparse.Namespace, spark: Any, directory: Path) -> list[str]:
    wrong = []
    for kind in FORMATS:
        begun = time.monotonic()
        fate = fuzz_format(kind, given.seed, given.count // len(FORMATS), spark, directory / kind.replace(" ", "_"))
        print(f"{fate}; {time.monotonic() - begun:.0f} s", flush=True)
        wrong += [f"{kind}: {one}" for one in fate.wrong]
    return wrong


if __name__ == "__main__":
    sys.exit(main())
