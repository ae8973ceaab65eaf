"""The source tree keeps its layers, and scripts/check_layers.py reports trees that do not."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


def load_checker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("check_layers", ROOT / "scripts" / "check_layers.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


checker = load_checker()


def tree(root: Path, files: dict[str, str]) -> Path:
    """Write a package directory with these files."""
    package = root / "src" / "windrow"
    for name, text in files.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return package


def test_good_tree(tmp_path: Path) -> None:
    package = tree(
        tmp_path,
        {
            "__init__.py": '"""Doc."""\n\nfrom windrow.api import open\n\n__all__ = ["open"]\n',
            "errors.py": "import sqlglot\n",
            "settings.py": "from windrow.errors import SettingError\n",
            "cql/statements.py": "from . import window_clause\nfrom ..errors import ParseError\n",
            "api.py": "from windrow import cql, errors, settings\nimport windrow.dataplane.spark_home\n",
            "oracle/evaluate.py": "from windrow.cql.statements import X\nfrom windrow import clock\n",
            "dataplane/spark_home.py": "from pyspark.sql import SparkSession\nfrom windrow.dataplane.kernels import join\n",
            "dataplane/kernels/__init__.py": "from windrow.dataplane.kernels.joins import join\n",
            "dataplane/kernels/joins.py": "import duckdb\n",
            "reference/nested_loops.py": "from windrow.dataplane.kernels import join\n",
            "cli.py": "from windrow import api\nimport windrow\nfrom windrow.oracle import evaluate\n",
            "catalog/migrations/0001.sql": "SELECT 1;\n",
        },
    )
    assert checker.breaches(package) == []


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("cql/parser.py", "from windrow.catalog import x\n", "cql/parser.py:1: imports windrow.catalog"),
        ("cql/parser.py", "import windrow.engine.ticks.ticker\n", "engine comes after cql"),
        ("cql/parser.py", "from ..plan import nodes\n", "plan comes after cql"),
        ("cql/final/a.py", "from ...plan import nodes\n", "plan comes after cql"),
        ("cql/parser.py", "from .. import plan\n", "plan comes after cql"),
        ("cql/parser.py", "from windrow import plan\n", "plan comes after cql"),
        ("engine/state.py", "import windrow\n", "__init__ comes after engine"),
        ("engine/state.py", "from windrow import open\n", "__init__ comes after engine"),
        ("errors.py", "def f():\n    from windrow.cql import x\n", "errors.py:2: imports windrow.cql"),
        ("windows/a.py", "import importlib\nimportlib.import_module('windrow.api')\n", "api comes after windows"),
        ("api.py", "from pyspark.sql import DataFrame\n", "only dataplane imports pyspark"),
        ("engine/state.py", "import pyspark\n", "only dataplane imports pyspark"),
        ("dataplane/kernels/a.py", "import pyspark\n", "dataplane/kernels stays free of pyspark"),
        ("oracle/a.py", "from windrow.windows import extent\n", "oracle imports only"),
        ("oracle/a.py", "from windrow import engine\n", "oracle imports only"),
        ("cli.py", "from windrow.reference.bins import Bins\n", "only tests and benchmarks import reference"),
        ("testing.py", "from windrow import reference\n", "only tests and benchmarks import reference"),
        ("attic/a.py", "", "room 'attic' has no place in LAYERS"),
        ("cql/__init__.py", '"""Doc."""\n\nLIMIT = 3\n', "cql/__init__.py:3: __init__.py only re-exports"),
        ("__init__.py", "def open():\n    pass\n", "__init__.py:1: __init__.py only re-exports"),
        ("cql/parser.py", "x = 1\n" * 801, "801 lines, at most 800"),
        ("catalog/a.sql", "--\n" * 801, "801 lines, at most 800"),
    ],
)
def test_bad_tree(tmp_path: Path, name: str, text: str, expected: str) -> None:
    found = checker.breaches(tree(tmp_path, {name: text}))
    assert len(found) == 1
    assert expected in found[0]


@pytest.mark.parametrize(
    "files",
    [
        {},
        {"plan/__init__.py": "from windrow.plan.nodes import Node\n"},
        {
            "plan/__init__.py": "from windrow.plan.nodes import Node\n",
            "reference/a.py": "from windrow.plan import Node\n",
        },
        {"cql/parser.py": "import windrow.errors\n", "plan/nodes.py": "import windrow.cql.parser\n"},
    ],
    ids=["alone", "passed on to nobody", "for reference only", "another unused one"],
)
def test_unused_module(tmp_path: Path, files: dict[str, str]) -> None:
    package = {"__init__.py": "from windrow.errors import E\n", "errors.py": "", "plan/nodes.py": "", **files}
    found = checker.breaches(tree(tmp_path, package))
    assert "plan/nodes.py:1: no module of windrow uses it; what only tests use belongs in reference" in found


def test_unchosen_schedulers_are_named(tmp_path: Path) -> None:
    """Those that the engine does not choose may stand unused; another scheduler may not."""
    package = tree(tmp_path, {"__init__.py": "", **dict.fromkeys(checker.UNCHOSEN, ""), "schedulers/queries/a.py": ""})
    found = [breach for breach in checker.breaches(package) if "uses it" in breach]
    assert [breach.split(":")[0] for breach in found] == ["schedulers/queries/a.py"]
    assert all((ROOT / "src" / "windrow" / name).exists() for name in checker.UNCHOSEN)


def test_exit_code_on_bad_tree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree(tmp_path, {"cql/parser.py": "import windrow.api\n"})
    assert checker.main([str(tmp_path)]) == 1
    assert "src/windrow/cql/parser.py:1: imports windrow.api" in capsys.readouterr().out
    assert checker.main([str(tmp_path / "nowhere")]) == 1


@pytest.mark.parametrize(
    "text",
    [
        "isinstance(a, BufferSynopsis)",
        "isinstance(a, (int, windrow.synopses.StoredSynopsis))",
        "isinstance(a, int | PartitionedSynopsis)",
        "match a:\n    case BasicIntervalSynopsis():\n        pass",
    ],
)
def test_isinstance_on_a_synopsis(tmp_path: Path, text: str) -> None:
    package = tree(tmp_path, {"engine/state.py": text, "explain/asks.py": text, "synopses/lookups.py": text})
    found = checker.breaches(package)
    assert [breach.split(":")[0] for breach in found] == ["engine/state.py", "explain/asks.py"]
    assert all("call the interface" in breach for breach in found)


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "synopses/cells/folds.py",
            "from windrow.synopses.index.runs import R\n",
            "index comes after cells in synopses",
        ),
        ("synopses/cells/folds.py", "from ..index import runs\n", "index comes after cells in synopses"),
        ("synopses/lookups.py", "import windrow.synopses.kinds.buffer\n", "kinds comes after lookups in synopses"),
        ("engine/state.py", "from windrow.engine import store\n", "store comes after state in engine"),
        ("engine/store/homes.py", "def f():\n    from windrow.engine.ticks import due\n", "store/homes.py:2: imports"),
        ("dataplane/ingest/job.py", "from windrow.dataplane.sources.rate import x\n", "sources comes after ingest"),
        ("cql/names.py", "from windrow.cql.parser import parse\n", "parser comes after names in cql"),
        ("engine/attic/a.py", "", "'attic' has no place in SUBROOMS['engine']"),
        ("cql/attic.py", "", "'attic' has no place in SUBROOMS['cql']"),
    ],
)
def test_bad_subroom_is_reported(tmp_path: Path, name: str, text: str, expected: str) -> None:
    found = checker.breaches(tree(tmp_path, {name: text}))
    assert len(found) == 1
    assert expected in found[0]


def test_good_subrooms_pass(tmp_path: Path) -> None:
    for_types = (
        "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from windrow.synopses.kinds.buffer import B\n"
    )
    files = {
        "synopses/__init__.py": "from windrow.synopses.having.units import U\n",
        "synopses/having/units.py": "from windrow.synopses.cells.folds import F\nfrom windrow.synopses import lookups\n",
        "synopses/cells/folds.py": "from windrow.synopses.cells.groups import G\n",
        "synopses/synopsis.py": for_types,
    }
    assert checker.breaches(tree(tmp_path, files)) == []


def test_every_subroom_exists() -> None:
    package = ROOT / "src" / "windrow"
    for room, ranks in checker.SUBRANK.items():
        for name in ranks:
            assert (package / room / name).is_dir() or (package / room / f"{name}.py").exists(), f"{room}/{name}"


def test_folder_with_too_many_files_is_reported(tmp_path: Path) -> None:
    files = {f"windows/f{i}.py": "" for i in range(checker.MAX_FILES)}
    assert checker.breaches(tree(tmp_path, files)) == []
    found = checker.breaches(tree(tmp_path, {"windows/__init__.py": ""}))
    assert found == ["windows:1: 17 Python files in a folder, at most 16"]


def test_class_name_that_occurs_twice_is_reported() -> None:
    texts = {"plan/a.py": "class Part: ...\nclass _Own: ...\n", "cql/b.py": "class Part: ...\nclass _Own: ...\n"}
    trees = {Path(name): ast.parse(text) for name, text in texts.items()}
    assert checker.check_class_names(trees) == ["cql/b.py:1: class Part has the name of a class in plan/a.py"]
