"""How a one-time query over windows is answered: the ways, by rules that say why.

From a synopsis of a standing query, if one has a window that is as fresh as the tuples that are kept. Else in the
driver if what it reads is small. Else by Spark: per-task partial results where these can be merged, or the user's own
text as Spark SQL. What only one of the two can evaluate goes there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from sqlglot import exp

from windrow.engine.ask.finished_tables import TakenTables, is_whole_table
from windrow.engine.ask.onetime.driver_read import DriverRead
from windrow.engine.ask.onetime.pinning import not_kept
from windrow.engine.ask.onetime.reading import NoSource, WindowWish
from windrow.engine.ask.onetime.sources import has_names
from windrow.engine.ask.onetime.spark_read import SparkRead
from windrow.engine.ask.onetime.windowed_read import WindowedRead
from windrow.engine.isolation.interface import PinnedVersion
from windrow.errors import UnsupportedError, WindrowError
from windrow.plan.nodes import Finalise
from windrow.settings import Settings

DRIVER, SPARK, VIEW = "driver", "spark", "view"
"""What a one-time query is answered from (`windrow.result.Asked`)."""


@dataclass
class OneTimeQuestion:
    """A one-time query in the forms in which it can be answered, each of them or why it has none: `aggregate`, which a
    synopsis may have (None: it is no aggregate over one window); `driver`, a plan over windows; and, made when it is
    asked for, its text as Spark SQL. `tasked` makes a plan whose partial results Spark tasks make."""

    select: exp.Expr
    text: str
    aggregate: Finalise | WindrowError | None
    driver: DriverRead | WindrowError
    make_spark: Callable[[], SparkRead]
    make_tasked: Callable[[DriverRead], DriverRead]
    _spark: SparkRead | WindrowError | None = field(default=None, init=False)
    _tasked: DriverRead | None = field(default=None, init=False)

    @property
    def spark(self) -> SparkRead | WindrowError:
        if self._spark is None:
            try:
                self._spark = self.make_spark()
            except WindrowError as error:
                self._spark = error
        return self._spark

    @property
    def tasked(self) -> DriverRead:
        assert isinstance(self.driver, DriverRead)
        if self._tasked is None:
            self._tasked = self.make_tasked(self.driver)
        return self._tasked


@dataclass(frozen=True)
class Chosen:
    """The way in which a query is evaluated, why, and the version that is pinned for it."""

    read: WindowedRead
    reason: str
    version: PinnedVersion


@dataclass(frozen=True)
class ChosenOverTables:
    """How a query that reads no window is evaluated, and why: one table as it is, in the driver, or by Spark."""

    answered_from: str
    reason: str
    read: DriverRead | None = None


def choose(question: OneTimeQuestion, settings: Settings) -> Chosen:
    """The way over windows; raises if there is none."""
    driver = question.driver
    if isinstance(driver, WindrowError):
        return _by_spark_alone(question, driver, driver.message)
    lacking = _lacking(driver)
    if lacking is not None and lacking[1].by_spark:
        return _by_spark_alone(question, not_kept(*lacking), lacking[1].why)
    if lacking is not None:
        raise not_kept(*lacking)
    return _by_size(question, driver, settings)


def _lacking(read: WindowedRead) -> tuple[WindowWish, NoSource] | None:
    """The first window that no store has, and why."""
    for wish in read.wishes:
        found = read.pinning.source(wish)
        if isinstance(found, NoSource):
            return wish, found
    return None


def _by_spark_alone(question: OneTimeQuestion, why_not: WindrowError, reason: str) -> Chosen:
    """Spark evaluates what the driver cannot; if neither can, the driver's reason is the one that helps."""
    if not isinstance(why_not, UnsupportedError):
        raise why_not
    spark = question.spark
    if isinstance(spark, WindrowError):
        raise why_not
    lacking = _lacking(spark)
    if lacking is not None:
        raise not_kept(*lacking)
    return Chosen(spark, f"the driver cannot evaluate it: {reason}", spark.pin())


def _by_size(question: OneTimeQuestion, driver: DriverRead, settings: Settings) -> Chosen:
    version = driver.pin()
    try:
        read, reason = _fitting_size(question, driver, version, settings)
    except BaseException:
        version.release()
        raise
    if not isinstance(read, SparkRead):
        return Chosen(read, reason, version)
    version.release()
    return Chosen(read, reason, read.pin())


def _fitting_size(
    question: OneTimeQuestion, driver: DriverRead, version: PinnedVersion, settings: Settings
) -> tuple[WindowedRead, str]:
    """The way that fits the size of what a version has, and why."""
    home, most = settings.text("ask_home"), settings.integer("driver_ask_bytes")
    if home == DRIVER:
        return driver, "ask_home = 'driver'"
    reason = "ask_home = 'spark'"
    if home != SPARK:
        size = driver.pinning.size(version, driver.asked.windows)
        if size <= most:
            return driver, f"it reads about {size:,} bytes, at most {most:,} (driver_ask_bytes)"
        reason = f"it reads about {size:,} bytes, more than {most:,} (driver_ask_bytes)"
    if driver.keeps_partials:
        return question.tasked, f"{reason}; tasks make partial results, which are merged"
    spark = question.spark
    if isinstance(spark, WindrowError):
        return driver, f"{reason}, but Spark SQL cannot evaluate it: {spark.message}"
    if _lacking(spark) is not None:
        return driver, f"{reason}, but not all columns that Spark SQL would read are kept"
    return spark, f"{reason}; its text is Spark SQL over the windows"


def choose_over_tables(
    select: exp.Expr,
    taken: TakenTables,
    driver: Callable[[], DriverRead | WindrowError],
    version: PinnedVersion,
    settings: Settings,
) -> ChosenOverTables:
    """The way over a version of the tables that were taken. `driver` gives the query as a plan, or why it has none."""
    if is_whole_table(select):
        return ChosenOverTables(VIEW, "all of one table, as it is")
    if settings.text("ask_home") == SPARK:
        return ChosenOverTables(SPARK, "ask_home = 'spark'")
    if not has_names(select):
        return ChosenOverTables(SPARK, "a column of the answer has no alias, and Spark SQL names it")
    if not all(one.is_view or one.is_table for one in taken.values()):
        return ChosenOverTables(SPARK, "it does not read views of continuous queries and tables alone")
    read = driver()
    if isinstance(read, WindrowError):
        return ChosenOverTables(SPARK, f"the driver cannot evaluate it: {read.message}")
    size, most = sum(int(table.nbytes) for table in version.tables.values()), settings.integer("driver_ask_bytes")
    if size > most:
        return ChosenOverTables(SPARK, f"it reads {size:,} bytes, more than {most:,} (driver_ask_bytes)")
    return ChosenOverTables(DRIVER, f"it reads {size:,} bytes, at most {most:,} (driver_ask_bytes)", read)
