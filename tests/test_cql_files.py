"""Every `.test` file of `tests/cql` on the oracle, on the engine, and on the engine under the matrix.

All are compared with the answers written in the file, hence with each other.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest
from support.matrix import AXES, Variation, axes_of, is_full, pairwise, variations_of
from support.runner import EngineBackend, plan_rules, run_on_engine, run_on_oracle
from support.test_file import read_test_file

from windrow.plan.sketched import HAS_SKETCHES

CQL = Path(__file__).parent / "cql"
PATHS = [path for path in sorted(CQL.rglob("*.test")) if HAS_SKETCHES or path.parent.name != "approximate"]
FILES = [pytest.param(path, id=str(path.relative_to(CQL).with_suffix(""))) for path in PATHS]
HOLISTIC = [pytest.param(path, id=path.stem) for path in PATHS if path.parent.name == "holistic"]
TABLES = [pytest.param(path, id=path.stem) for path in PATHS if path.stem.startswith("tables_")]
RESTORES = [pytest.param(path, id=path.stem) for path in PATHS if path.stem.startswith("restore")]
ASKED = [pytest.param(path, id=path.stem) for path in PATHS if path.parent.name == "asked"]
RANKED = [pytest.param(path, id=path.stem) for path in PATHS if path.stem.startswith("partitioned")]


def _varied() -> list[Any]:
    """(file, variation) pairs."""
    pairs = []
    for test, chosen in variations_of([read_test_file(path) for path in PATHS]):
        variation = chosen
        if chosen.batch_rows == 1 and chosen.preaggregate == "spark" and not is_full():
            # A Spark job of several stages per row takes a third of the time of all variations.
            variation = replace(chosen, batch_rows=3)
        pairs.append(pytest.param(test.path, variation, id=f"{test.name}-{variation}"))
    return pairs


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES)
def test_oracle(path: Path, spark: Any) -> None:
    run_on_oracle(read_test_file(path), spark)


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES)
def test_engine(path: Path, spark: Any, tmp_path: Path) -> None:
    run_on_engine(read_test_file(path), spark, tmp_path / "state", Variation())


@pytest.mark.slow
@pytest.mark.matrix
@pytest.mark.parametrize(("path", "variation"), _varied())
def test_engine_under_the_matrix(path: Path, variation: Variation, spark: Any, tmp_path: Path) -> None:
    run_on_engine(read_test_file(path), spark, tmp_path / "state", variation)


@pytest.mark.slow
@pytest.mark.parametrize("mode", AXES["preaggregate"])
@pytest.mark.parametrize("path", RANKED)
def test_partitioned_windows_in_both_homes(path: Path, mode: str, spark: Any, tmp_path: Path) -> None:
    """Ranks continue across micro-batches differently in each home; the sample of the matrix may omit one."""
    run_on_engine(read_test_file(path), spark, tmp_path / "state", Variation(partitions=2, preaggregate=mode))


@pytest.mark.slow
@pytest.mark.parametrize(("home", "restart"), [("driver", False), ("spark", True)])
@pytest.mark.parametrize("path", TABLES)
def test_tables_in_bucketed_blocks(path: Path, home: str, restart: bool, spark: Any, tmp_path: Path) -> None:
    """Only large tables are in bucketed blocks unless the settings force it."""
    variation = Variation(partitions=2, plan_home=home, restart=restart, tables="bucketed")
    run_on_engine(read_test_file(path), spark, tmp_path / "state", variation)


@pytest.mark.slow
@pytest.mark.parametrize(("execution", "home"), [("negative", "driver"), ("negative", "spark"), ("direct", "driver")])
@pytest.mark.parametrize("path", RESTORES)
def test_restore_by_other_strategies(path: Path, execution: str, home: str, spark: Any, tmp_path: Path) -> None:
    """What no tick sees is reported by every strategy; the sample of the matrix may omit one."""
    variation = Variation(plan_home=home, restart=home == "driver", execution=execution)
    run_on_engine(read_test_file(path), spark, tmp_path / "state", variation)


BY_STRATEGY = [("negative", "not_exists"), ("negative", "outer_join"), ("direct", "distinct_join"), ("direct", "now")]


@pytest.mark.slow
@pytest.mark.parametrize(("execution", "name"), BY_STRATEGY)
def test_files_run_by_their_strategy(execution: str, name: str, spark: Any, tmp_path: Path) -> None:
    """What a strategy refuses runs by the default one, so a file may run without it. These do run by it."""
    test = read_test_file(CQL / "continuous" / f"{name}.test")
    run = run_on_engine(test, spark, tmp_path / "state", Variation(execution=execution))
    assert isinstance(run.backend, EngineBackend) and run.backend.refused == []


@pytest.mark.slow
@pytest.mark.parametrize("asked", AXES["asked"])
@pytest.mark.parametrize("path", ASKED)
def test_one_time_queries_in_both_places(path: Path, asked: str, spark: Any, tmp_path: Path) -> None:
    """Small windows are evaluated in the driver unless the settings force Spark."""
    run_on_engine(read_test_file(path), spark, tmp_path / "state", Variation(partitions=2, asked=asked))


@pytest.mark.slow
@pytest.mark.parametrize("path", HOLISTIC)
def test_holistic_aggregates_by_selection(path: Path, spark: Any, tmp_path: Path) -> None:
    """Small windows are always rolled up unless the settings force selection."""
    run_on_engine(read_test_file(path), spark, tmp_path / "state", Variation(evaluation="selection"))


def _one_rule_off() -> list[Any]:
    """(file, rule) pairs: each file without each rule; in the sample, without one of them, in turn."""
    rules, continuous = plan_rules(), [path for path in PATHS if path.parent.name == "continuous"]
    if not is_full():
        return [(path, rules[i % len(rules)]) for i, path in enumerate(continuous) if rules]
    return [(path, rule) for path in continuous for rule in rules]


@pytest.mark.slow
@pytest.mark.matrix
@pytest.mark.parametrize(("path", "rule"), [pytest.param(*p, id=f"{p[0].stem}-{p[1]}") for p in _one_rule_off()])
def test_continuous_queries_without_a_rule(path: Path, rule: str, spark: Any, tmp_path: Path) -> None:
    run_on_engine(read_test_file(path), spark, tmp_path / "state", Variation(rules_off=rule))


def test_files_exist() -> None:
    assert len(PATHS) >= 50


def test_sample_has_every_pair() -> None:
    shapes = {axes_of(read_test_file(path)) for path in PATHS}
    for axes in (tuple(AXES.items()), *shapes):
        found = pairwise(axes)
        for (one, values), (other, others) in combinations(axes, 2):
            pairs = {(_value(variation, one), _value(variation, other)) for variation in found}
            assert pairs == set(product(values, others)), (one, other)


def _value(variation: Variation, axis: str) -> Any:
    return (variation.plan_home, variation.ranges) if axis == "plans" else getattr(variation, axis)
