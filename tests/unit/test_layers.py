"""The source tree keeps its layers, and scripts/check_layers.py reports trees that do not."""

from __future__ import annotations

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


def test_source_tree() -> None:
    package = ROOT / "src" / "windrow"
    assert (package / "errors.py").exists()
    assert checker.breaches(package) == []


def test_good_tree(tmp_path: Path) -> None:
    package = tree(
        tmp_path,
        {
            "__init__.py": '"""Doc."""\n\nfrom windrow.api import open\n\n__all__ = ["open"]\n',
            "errors.py": "import sqlglot\n",
            "settings.py": "from windrow.errors import SettingError\n",
            "cql/statements.py": "from . import window_clause\nfrom ..errors import ParseError\n",
            "api.py": "from windrow import cql, errors, settings\nimport windrow.dataplane.session\n",
            "oracle/evaluate.py": "from windrow.cql.statements import X\nfrom windrow import clock\n",
            "dataplane/session.py": "from pyspark.sql import SparkSession\nfrom windrow.dataplane.kernels import join\n",
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
        ("cql/a.py", "from windrow.catalog import x\n", "cql/a.py:1: imports windrow.catalog"),
        ("cql/a.py", "import windrow.engine.ticks.ticker\n", "engine comes after cql"),
        ("cql/a.py", "from ..plan import nodes\n", "plan comes after cql"),
        ("cql/b/a.py", "from ...plan import nodes\n", "plan comes after cql"),
        ("cql/a.py", "from .. import plan\n", "plan comes after cql"),
        ("cql/a.py", "from windrow import plan\n", "plan comes after cql"),
        ("engine/a.py", "import windrow\n", "__init__ comes after engine"),
        ("engine/a.py", "from windrow import open\n", "__init__ comes after engine"),
        ("errors.py", "def f():\n    from windrow.cql import x\n", "errors.py:2: imports windrow.cql"),
        ("plan/a.py", "import importlib\nimportlib.import_module('windrow.api')\n", "api comes after plan"),
        ("api.py", "from pyspark.sql import DataFrame\n", "only dataplane imports pyspark"),
        ("engine/a.py", "import pyspark\n", "only dataplane imports pyspark"),
        ("dataplane/kernels/a.py", "import pyspark\n", "dataplane/kernels stays free of pyspark"),
        ("oracle/a.py", "from windrow.windows import extent\n", "oracle imports only"),
        ("oracle/a.py", "from windrow import engine\n", "oracle imports only"),
        ("cli.py", "from windrow.reference.bins import Bins\n", "only tests and benchmarks import reference"),
        ("testing.py", "from windrow import reference\n", "only tests and benchmarks import reference"),
        ("attic/a.py", "", "room 'attic' has no place in LAYERS"),
        ("cql/__init__.py", '"""Doc."""\n\nLIMIT = 3\n', "cql/__init__.py:3: __init__.py only re-exports"),
        ("__init__.py", "def open():\n    pass\n", "__init__.py:1: __init__.py only re-exports"),
        ("cql/a.py", "x = 1\n" * 801, "801 lines, at most 800"),
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
        {"cql/a.py": "import windrow.errors\n", "plan/nodes.py": "import windrow.cql.a\n"},
    ],
    ids=["alone", "passed on to nobody", "for reference only", "another unused one"],
)
def test_unused_module(tmp_path: Path, files: dict[str, str]) -> None:
    package = {"__init__.py": "from windrow.errors import E\n", "errors.py": "", "plan/nodes.py": "", **files}
    found = checker.breaches(tree(tmp_path, package))
    assert "plan/nodes.py:1: no module of windrow uses it; what only tests use belongs in reference" in found


def test_exit_code_on_bad_tree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree(tmp_path, {"cql/a.py": "import windrow.api\n"})
    assert checker.main([str(tmp_path)]) == 1
    assert "src/windrow/cql/a.py:1: imports windrow.api" in capsys.readouterr().out
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
    package = tree(tmp_path, {"engine/asks.py": text, "explain/asks.py": text, "synopses/may.py": text})
    found = checker.breaches(package)
    assert [breach.split(":")[0] for breach in found] == ["engine/asks.py", "explain/asks.py"]
    assert all("call the interface" in breach for breach in found)
