"""Charts of answers, as matplotlib holds them."""

from __future__ import annotations

import datetime as dt
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from typing import Any

import matplotlib
import numpy as np
import pyarrow as pa
import pytest
from matplotlib import dates

from windrow.display.charts import KINDS, Chart, draw
from windrow.errors import BindError, UnsupportedError

matplotlib.use("Agg")
PLAIN = Chart("q", (), "window end (t)", True, "line", 10)
BY_K = replace(PLAIN, keys=("k",))
NAN = float("nan")
INTEGER = pa.int64()


def answers(rows: list[tuple[Any, ...]], schema: dict[str, pa.DataType], bound: pa.DataType = INTEGER) -> pa.Table:
    """Rows of (window_end, …) as answers of windows of length 10."""
    full = pa.schema([("window_start", bound), ("window_end", bound), ("is_revision", pa.bool_()), *schema.items()])
    back = dt.timedelta(seconds=10) if pa.types.is_timestamp(bound) else 10
    return pa.Table.from_pylist(
        [dict(zip(full.names, (row[0] - back, row[0], False, *row[1:]), strict=True)) for row in rows], full
    )


GROUPED = answers(
    [(10, "a", 1), (10, "b", 5), (20, "b", 6), (30, "a", 3), (30, None, 4)], {"k": pa.string(), "n": pa.int64()}
)


@pytest.fixture(autouse=True)
def closed_figures() -> Iterator[None]:
    """Every figure can be drawn, without a warning. Those of earlier tests are none of ours."""
    from matplotlib import pyplot

    pyplot.close("all")
    yield
    for number in pyplot.get_fignums():
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            pyplot.figure(number).canvas.draw()
    pyplot.close("all")


def lines(ax: Any) -> dict[str, tuple[list[float], list[float]]]:
    return {line.get_label(): (list(line.get_xdata()), list(line.get_ydata())) for line in ax.get_lines()}


def legend(ax: Any) -> list[str] | None:
    found = ax.get_legend()
    return None if found is None else [text.get_text() for text in found.get_texts()]


def test_line_per_number() -> None:
    table = answers(
        [(10, 1, Decimal("0.5"), 1.5, "x", True), (20, None, None, float("inf"), "y", False)],
        {"n": pa.int64(), "d": pa.decimal128(10, 2), "f": pa.float64(), "s": pa.string(), "b": pa.bool_()},
    )
    ax = draw(PLAIN, table, None, None)
    found = lines(ax)
    assert list(found) == legend(ax) == ["n", "d", "f"]
    np.testing.assert_equal(
        found, {"n": ([10, 20], [1, NAN]), "d": ([10, 20], [0.5, NAN]), "f": ([10, 20], [1.5, NAN])}
    )
    assert ax.get_title() == "q" and ax.get_xlabel() == "window end (t)" and ax.get_ylabel() == ""
    only = draw(PLAIN, table, "D", None)
    assert list(lines(only)) == ["d"] and only.get_ylabel() == "d" and legend(only) is None


def test_line_per_group() -> None:
    """A window without a row of a group is a gap in its line."""
    ax = draw(BY_K, GROUPED, None, None)
    every = [10, 20, 30]
    np.testing.assert_equal(
        lines(ax), {"b": (every, [5, 6, NAN]), "a": (every, [1, NAN, 3]), "NULL": (every, [NAN, NAN, 4])}
    )
    assert legend(ax) == ["b", "a", "NULL"] and ax.get_ylabel() == "n"


def test_groups_and_numbers() -> None:
    two = GROUPED.append_column("m", pa.array([1.0] * 5))
    assert list(lines(draw(BY_K, two, None, None))) == ["b · n", "b · m", "a · n", "a · m", "NULL · n", "NULL · m"]
    both = replace(PLAIN, keys=("k", "n"))
    assert list(lines(draw(both, two, None, None)))[:2] == ["a, 1", "b, 5"]


def test_partitions_have_their_own_windows() -> None:
    found = lines(draw(replace(BY_K, is_aligned=False), GROUPED, None, None))
    assert found == {"b": ([10, 20], [5, 6]), "a": ([10, 30], [1, 3]), "NULL": ([30], [4])}


def test_greatest_groups() -> None:
    table = answers([(10, k, float(k)) for k in range(-30, 31)], {"k": pa.int32(), "n": pa.float64()})
    ax = draw(replace(BY_K, groups=3), table, None, None)
    assert set(lines(ax)) <= {"30", "-30", "29", "-29"} and len(lines(ax)) == 3
    assert ax.get_legend().get_title().get_text() == "3 of 61 groups"


@pytest.mark.parametrize("bound", [pa.timestamp("us", tz="UTC"), pa.timestamp("us")], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_times(kind: str, bound: pa.DataType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Times are shown in UTC, whatever zone matplotlib is set to."""
    monkeypatch.setitem(matplotlib.rcParams, "timezone", "Asia/Tokyo")
    ends = [dt.datetime(2026, 3, 1, 12, minute, tzinfo=dt.timezone.utc) for minute in range(5)]
    ax = draw(
        replace(PLAIN, kind=kind),
        answers([(end, i) for i, end in enumerate(ends)], {"n": pa.int64()}, bound),
        None,
        None,
    )
    drawn = [bar.get_center()[0] for bar in ax.patches] if kind == "bar" else lines(ax)["n"][0]
    np.testing.assert_allclose(drawn, dates.date2num(ends), rtol=0, atol=1e-9)
    ax.figure.canvas.draw()
    assert "12:00" in [text.get_text() for text in ax.get_xticklabels()]
    assert {line.get_linestyle() for line in ax.get_lines()} <= {"None" if kind == "points" else "-"}


def test_times_beyond_the_calendar() -> None:
    ends = pa.array([-(10**17), 10**17], pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    table = pa.table({"window_start": ends, "window_end": ends, "is_revision": [False] * 2, "n": [1, 2]})
    assert lines(draw(PLAIN, table, None, None))["n"][0] == [-(10**17), 10**17]


def test_bars_stand_side_by_side() -> None:
    ax = draw(replace(BY_K, kind="bar"), GROUPED, None, None)
    spans = sorted((bar.get_x(), bar.get_x() + bar.get_width()) for bar in ax.patches)
    assert len(spans) == 9 and all(left[1] <= right[0] + 1e-9 for left, right in zip(spans, spans[1:], strict=False))
    assert legend(ax) == ["b", "a", "NULL"]
    (bar,) = draw(replace(PLAIN, kind="bar"), answers([(10, 7)], {"n": pa.int64()}), None, None).patches
    assert bar.get_height() == 7 and bar.get_width() == pytest.approx(0.8)
    at = dt.datetime(2026, 3, 1, tzinfo=dt.timezone.utc)
    (bar,) = draw(
        replace(PLAIN, kind="bar"), answers([(at, 7)], {"n": pa.int64()}, pa.timestamp("us", tz="UTC")), None, None
    ).patches
    assert bar.get_width() == pytest.approx(0.8 * 10 / 86_400)


def test_given_axes() -> None:
    """Several queries on one chart are told apart by their names."""
    ax = draw(PLAIN, answers([(10, 1)], {"n": pa.int64()}), None, None)
    ax.set_ylabel("mine")
    assert draw(replace(BY_K, query="p"), GROUPED, None, ax) is ax
    assert list(lines(ax)) == legend(ax) == ["n", "p · b", "p · a", "p · NULL"]
    assert ax.get_title() == "q" and ax.get_ylabel() == "mine"


def test_labels_are_shown_as_they_are() -> None:
    """$…$ is no formula, and a leading underscore does not hide a label."""
    table = answers([(10, r"$\broken$", 2), (10, "_x", 1)], {"k": pa.string(), "n": pa.int64()})
    ax = draw(replace(BY_K, query="$a$ _"), table, None, None)
    assert legend(ax) == [r"\$\broken\$", " _x"]


def test_without_answers() -> None:
    for bound in (pa.int64(), pa.timestamp("us", tz="UTC")):
        for kind in KINDS:
            ax = draw(replace(BY_K, kind=kind), answers([], {"k": pa.string(), "n": pa.int64()}, bound), None, None)
            assert [text.get_text() for text in ax.texts] == ["no answers"]


def test_rows_that_no_column_tells_apart() -> None:
    table = answers([(10, 1), (10, 2), (20, 3)], {"n": pa.int64()})
    with pytest.raises(BindError, match="several rows per window that no column tells apart"):
        draw(PLAIN, table, None, None)
    assert lines(draw(replace(PLAIN, kind="points"), table, None, None))["n"] == ([10, 10, 20], [1, 2, 3])


@pytest.mark.parametrize(
    "chart, columns, message",
    [
        (replace(PLAIN, kind="pie"), None, "kind='pie' is no kind of chart.*one of line, step, points, bar"),
        (replace(PLAIN, groups=0), None, "groups=0"),
        (BY_K, "nn", "has no column 'nn'.*Its numbers: n"),
        (BY_K, ["n", "k"], "column 'k' of query 'q' is no number.*Its numbers: n"),
        (BY_K, [], "there is no column to draw"),
        (BY_K, [7], "has no column 7"),
        (replace(PLAIN, keys=("k", "n")), None, "has no number to draw"),
    ],
)
def test_refused(chart: Chart, columns: Any, message: str) -> None:
    from matplotlib import pyplot

    with pytest.raises(BindError, match=f"(?s){message}"):
        draw(chart, GROUPED, columns, None)
    assert pyplot.get_fignums() == []


def test_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UnsupportedError) as raised:
        draw(PLAIN, GROUPED, None, None)
    assert (
        str(raised.value)
        == "[WR290] plot() needs the package matplotlib, which is not installed\npip install matplotlib"
    )
    monkeypatch.undo()
