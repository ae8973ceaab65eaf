"""The chooser of where a micro-batch is grouped, from earlier measurements."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from windrow.engine.choices.chooser import (
    MANY_PARTIALS,
    MANY_SETS,
    MOST_COUNT_BYTES,
    POOR_REDUCTION,
    SMALL_ROWS,
    UNKNOWN_SWELL,
    GroupingChoice,
    possible_setting,
)

some = settings(max_examples=80, deadline=None)
MB = 1 << 20
LIMIT = 64 * MB

measures = st.tuples(
    st.integers(0, 10**7), st.floats(0, 1), st.none() | st.integers(0, 1 << 32), st.none() | st.integers(1, 1 << 32)
)


def after(history: list[tuple[int, float, int | None, int | None]]) -> GroupingChoice:
    chooser = GroupingChoice()
    for rows, share, gathered, estimate in history:
        chooser = chooser.after(rows, int(rows * share), gathered, estimate)
    return chooser


@some
@given(st.lists(measures, max_size=5), st.none() | st.integers(0, 1 << 40))
def test_the_setting_spark_is_always_followed(history: list, estimate: int | None) -> None:
    assert after(history).choose("spark", estimate, LIMIT) == "spark"


@some
@given(st.lists(measures, max_size=5), st.integers(0, 1 << 40), st.sampled_from(["auto", "driver"]))
def test_no_gather_beyond_the_limit(history: list, estimate: int, setting: str) -> None:
    chooser = after(history)
    if estimate * chooser.swell > LIMIT:
        assert chooser.choose(setting, estimate, LIMIT) == "spark"


@some
@given(st.lists(measures, max_size=5), st.none() | st.integers(0, 1 << 40))
def test_the_same_history_gives_the_same_choice(history: list, estimate: int | None) -> None:
    assert after(history) == after(history)
    assert after(history).choose("auto", estimate, LIMIT) in ("spark", "driver")


def test_first_micro_batch() -> None:
    assert GroupingChoice().choose("auto", LIMIT // UNKNOWN_SWELL, LIMIT) == "driver"
    assert GroupingChoice().choose("auto", LIMIT // UNKNOWN_SWELL + 1, LIMIT) == "spark"
    assert GroupingChoice().choose("auto", None, LIMIT) == "spark"
    assert GroupingChoice().choose("driver", 1000, LIMIT) == "driver"
    assert GroupingChoice().choose("driver", None, LIMIT) == "driver"


def test_spark_home_prefers_spark() -> None:
    poor = GroupingChoice().after(SMALL_ROWS, SMALL_ROWS, None, None)
    assert poor.choose("auto", 1, 1 << 20) == "driver"
    assert poor.choose("auto", 1, 1 << 20, stored=True) == "spark"
    small = GroupingChoice().after(SMALL_ROWS - 1, 1, None, None)
    assert small.choose("auto", 1, 1 << 20, stored=True) == "driver"


@pytest.mark.parametrize(
    ("rows", "cells", "choice"),
    [
        (100_000, 100, "spark"),
        (100_000, int(100_000 * POOR_REDUCTION), "spark"),
        (100_000, int(100_000 * POOR_REDUCTION) + 1, "driver"),
        (100_000, 100_000, "driver"),
        (SMALL_ROWS - 1, 1, "driver"),
        (SMALL_ROWS, 1, "spark"),
    ],
)
def test_auto_gathers_what_is_small_or_hardly_reduced(rows: int, cells: int, choice: str) -> None:
    assert GroupingChoice().after(rows, cells, None, None).choose("auto", None, LIMIT) == choice


def test_many_synopses_are_grouped_in_the_driver() -> None:
    taught = GroupingChoice().after(100_000, 100, None, None)
    assert taught.choose("auto", 1000, LIMIT, MANY_SETS) == "spark"
    assert taught.choose("auto", 1000, LIMIT, MANY_SETS + 1) == "driver"
    assert taught.choose("auto", LIMIT + 1, LIMIT, MANY_SETS + 1) == "spark"
    assert taught.choose("spark", 1000, LIMIT, MANY_SETS + 1) == "spark"


def test_ordered_rows_are_gathered() -> None:
    taught = GroupingChoice().after(100_000, 100, None, None)
    assert taught.choose("auto", 1000, LIMIT, ordered=True) == "driver"
    assert taught.choose("auto", LIMIT + 1, LIMIT, ordered=True) == "spark"
    assert taught.choose("spark", 1000, LIMIT, ordered=True) == "spark"


def test_many_partial_aggregates_are_gathered() -> None:
    taught = GroupingChoice().after(100_000, 1_000, None, None)
    assert taught.choose("auto", 1000, LIMIT, 4, partials=MANY_PARTIALS // 4) == "spark"
    assert taught.choose("auto", 1000, LIMIT, 4, partials=MANY_PARTIALS // 4 + 1) == "driver"
    assert taught.choose("spark", 1000, LIMIT, 4, partials=MANY_PARTIALS) == "spark"


def test_an_empty_micro_batch_teaches_nothing() -> None:
    taught = GroupingChoice().after(100_000, 90_000, 800_000, 400_000)
    assert taught.after(0, 0, 0, 12345) == taught


def test_estimate_is_corrected_by_swell() -> None:
    """Spark estimated 10 MB and 40 MB came, so an estimate of 20 MB counts as 80 MB."""
    taught = GroupingChoice().after(1_000_000, 900_000, 40 * MB, 10 * MB)
    assert taught.swell == 4.0
    assert taught.choose("auto", 20 * MB, LIMIT) == "spark"
    assert taught.choose("auto", 15 * MB, LIMIT) == "driver"
    by_spark = taught.after(1_000_000, 900_000, None, 30 * MB)
    assert by_spark.swell == 4.0, "a micro-batch that was not gathered has no measured bytes"


def test_choice_without_an_estimate() -> None:
    taught = GroupingChoice().after(1_000_000, 900_000, 100 * MB, None)
    assert taught.choose("driver", None, LIMIT) == "spark"
    assert taught.after(10_000, 9_000, None, None).choose("driver", None, LIMIT) == "driver"


@pytest.mark.parametrize("setting", ["auto", "spark", "driver"])
def test_many_partition_counts(setting: str) -> None:
    assert possible_setting(setting, MOST_COUNT_BYTES) == setting
    assert possible_setting(setting, MOST_COUNT_BYTES + 1) == "driver"


def test_sketches_are_made_by_spark() -> None:
    assert [possible_setting(setting, 1 << 30, sketched=True) for setting in ("auto", "driver", "spark")] == [
        "spark"
    ] * 3
    assert possible_setting("driver", 0) == "driver"
