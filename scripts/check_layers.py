"""Keeps the source tree in its layers: which room may import which, and what a file may be.

`python scripts/check_layers.py [root]` prints one line per breach and exits with 1 if there is any.
A new room gets its place in LAYERS; within the rooms of SUBROOMS, a new folder or file gets its place there. Also, the
product uses each of its modules: one that only tests import belongs in `reference/`, or nowhere.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

PACKAGE = "windrow"
BASE = ("errors", "settings", "clock", "types")
# In order. A room may import the rooms of earlier layers and of its own.
LAYERS: tuple[tuple[str, ...], ...] = (
    (*BASE, "crash", "display", "durable", "logs", "result", "version"),
    ("cql",),
    ("catalog",),
    ("windows",),
    ("plan",),
    ("patterns",),
    ("optimizer",),
    ("synopses",),
    ("operators",),
    ("schedulers",),
    ("dataplane",),
    ("engine",),
    ("explain",),  # before the API, whose EXPLAIN it is
    ("handles",),
    ("api",),
    ("lazy",),
    ("__init__",),  # the package itself: `import windrow`
    ("oracle",),
    ("reference",),
    ("testing",),
    ("console",),
    ("cli",),
    ("__main__",),
)
RANK = {room: rank for rank, rooms in enumerate(LAYERS) for room in rooms}
# Within a room, in order: its folders, and its files that are in none. `__init__.py` may import them all.
SUBROOMS: dict[str, tuple[tuple[str, ...], ...]] = {
    "cql": (
        ("names", "tokens", "intervals", "time_texts", "window_clause"),
        ("patterns", "column_types", "statements", "window_syntax"),
        ("dialect", "create_stream"),
        ("functions", "select_text"),
        ("tables",),
        ("parser", "printer", "final", "bounds"),
    ),
    "plan": (
        ("accumulators", "mistyped", "texts", "trees"),
        ("calls", "nodes"),
        ("algebra", "bind_window", "having", "holistic", "sketched"),
        ("aggregates",),
        ("binder",),
        ("continuous", "type_record"),
    ),
    "optimizer": (
        ("samples",),
        ("synopsis_kinds", "facts", "join_order", "common_join", "common_subplan", "execution"),
        ("candidates", "shapes", "negation_moves", "drift"),
        ("sharing", "estimates"),
        ("cost",),
        ("rules",),
        ("pipeline",),
    ),
    "synopses": (
        ("cells",),
        ("index",),
        ("lookups", "results"),
        ("answering",),
        ("synopsis",),
        ("kinds",),
        ("holistic",),
        ("having",),
    ),
    "operators": (
        ("ticks",),
        ("tables",),
        ("grouping", "layouts", "merge_union", "projection", "scan", "selection"),
        ("changes", "distinct", "group_by", "output_window", "to_stream", "top_rows"),
        ("join", "strategies", "view"),
        ("negation", "relations", "strict"),
        ("state",),
        ("sharing", "stages"),
        ("advance",),
        ("carrying",),
    ),
    "schedulers": (
        ("panes",),
        ("history",),
        ("notation", "check_history", "transactions", "queries"),
    ),
    "dataplane": (
        ("class_archive", "frames", "jobs", "jvm", "levels", "memory", "stopping", "blocks", "nexmark"),
        ("session", "analysing"),
        ("streaming_frames", "answers", "stores"),
        ("kernels",),
        ("ingest", "sinks"),
        ("sources", "spark_home", "plan_stages", "window_frames"),
        ("table_rows",),
    ),
    "engine": (
        ("lags", "lending", "metrics", "progress", "choices"),
        ("state",),
        ("store",),
        ("kept",),
        ("ticks",),
        ("queries",),
        ("tables",),
        ("plans",),
        ("intake",),
        ("isolation",),
        ("ask",),
        ("run",),
        ("engine",),
        ("read_only",),
    ),
}
SUBRANK = {room: {name: i for i, names in enumerate(order) for name in names} for room, order in SUBROOMS.items()}
# Rooms that may import these and nothing else of the package.
ONLY = {"oracle": {"cql", *BASE}}
# Rooms that nothing else of the package imports: tests and benchmarks do.
FOR_TESTS = {"reference"}
# What users, tests and the interpreter start from. A room stands for all its modules.
ENTRANCES = {"__init__", "__main__", "cli", "testing", "oracle"}
# The schedulers that the engine does not choose, and what these need: only benchmarks and tests use them.
UNCHOSEN = {
    *("schedulers/transactions/serial.py", "schedulers/transactions/window.py"),
    *("schedulers/queries/by_name.py", "schedulers/queries/groups.py", "schedulers/queries/interface.py"),
    *("schedulers/queries/machine.py", "schedulers/queries/periods.py", "schedulers/queries/hybrid.py"),
    *("schedulers/queries/edf.py", "schedulers/queries/aggressive.py", "schedulers/queries/conservative.py"),
    *("schedulers/queries/late.py", "schedulers/queries/late_pending.py"),
}
SPARK = "pyspark"
SPARK_ROOM = "dataplane"
# Inside the Spark room, yet run without a driver.
SPARK_FREE = (("dataplane", "kernels"), ("dataplane", "stores"))
MAX_LINES = 800
MAX_FILES = 16
# Rooms that call the interface of synopses (`synopses/synopsis.py`) and never ask for the class.
BY_INTERFACE = ("engine", "explain")
SYNOPSIS = "Synopsis"
Import = tuple[str, str | None]
"""A module, and what is taken from it: None if it is the module itself."""


def breaches(package_dir: Path) -> list[str]:
    """Every breach of the rules under a package directory, as `file:line: what is wrong`."""
    found: list[str] = []
    trees: dict[Path, ast.Module] = {}
    for path in sorted(package_dir.rglob("*")):
        if path.suffix not in {".py", ".sql"}:
            continue
        relative = path.relative_to(package_dir)
        text = path.read_text(encoding="utf-8")
        found += check_length(relative, text)
        if path.suffix == ".py":
            tree = ast.parse(text, filename=str(path))
            found += check_imports(relative, tree)
            found += check_subrooms(relative, tree)
            found += check_interface(relative, tree)
            trees[relative] = tree
            if path.name == "__init__.py":
                found += check_only_reexports(relative, tree)
    return found + check_folders(trees) + check_all_used(trees) + check_class_names(trees)


def check_folders(files: Iterable[Path]) -> list[str]:
    """A folder is a chapter; one with more files holds several."""
    counts = Counter(relative.parent for relative in files)
    return [
        f"{folder}:1: {count} Python files in a folder, at most {MAX_FILES}"
        for folder, count in sorted(counts.items())
        if count > MAX_FILES
    ]


def check_class_names(trees: dict[Path, ast.Module]) -> list[str]:
    """No two public classes have the same name."""
    places: dict[str, list[str]] = {}
    for relative, tree in trees.items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(f"{relative}:{node.lineno}")
    return [
        f"{second}: class {name} has the name of a class in {first.split(':')[0]}"
        for name, (first, *more) in sorted(places.items())
        for second in more
    ]


def check_length(relative: Path, text: str) -> list[str]:
    """A file is one idea; one above the limit holds several."""
    lines = len(text.splitlines())
    return [f"{relative}:{MAX_LINES + 1}: {lines} lines, at most {MAX_LINES}"] if lines > MAX_LINES else []


def check_imports(relative: Path, tree: ast.Module) -> list[str]:
    """Imports point one way, only the data plane knows Spark, and the oracle shares only cql with the engine."""
    room = room_of(relative)
    if room not in RANK:
        return [f"{relative}:1: room '{room}' has no place in LAYERS of scripts/check_layers.py"]
    found: list[str] = []
    for line, module in imported_modules(relative, tree):
        head, *rest = module.split(".")
        problem = None
        if head == SPARK:
            problem = spark_problem(relative)
        elif head == PACKAGE:
            problem = room_problem(room, rest[0] if rest else "__init__")
        if problem:
            found.append(f"{relative}:{line}: imports {module}: {problem}")
    return found


def check_subrooms(relative: Path, tree: ast.Module) -> list[str]:
    """Within a room of SUBROOMS, imports point one way too. Imports for annotations alone do not count."""
    room = room_of(relative)
    ranks = SUBRANK.get(room)
    if ranks is None or len(relative.parts) < 2 or relative.parts[1:] == ("__init__.py",):
        return []
    own = subroom_of(relative.parts[1])
    if own not in ranks:
        return [f"{relative}:1: '{own}' has no place in SUBROOMS['{room}'] of scripts/check_layers.py"]
    for_types = set(typing_only(tree))
    found = []
    for line, module in room_modules(relative, tree):
        target = module.split(".")[2]
        if line not in for_types and ranks.get(target, -1) > ranks[own]:
            found.append(f"{relative}:{line}: imports {module}: {target} comes after {own} in {room}")
    return found


def subroom_of(part: str) -> str:
    return part.removesuffix(".py")


def typing_only(tree: ast.Module) -> Iterator[int]:
    """The lines of imports under `if TYPE_CHECKING:`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and getattr(node.test, "id", None) == "TYPE_CHECKING":
            yield from (inner.lineno for inner in node.body)


def room_modules(relative: Path, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, module) of every import from the file's own room; `from windrow.cql import names` names `cql.names`."""
    own = f"{PACKAGE}.{room_of(relative)}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = absolute_module(relative, node)
            modules = [f"{own}.{alias.name}" for alias in node.names] if module == own else [module]
        else:
            continue
        yield from ((node.lineno, module) for module in modules if module.startswith(f"{own}."))


def check_interface(relative: Path, tree: ast.Module) -> list[str]:
    """What a synopsis cannot do it says as data (`Synopsis.cannot`): nobody here tests for its class."""
    if room_of(relative) not in BY_INTERFACE:
        return []
    return [
        f"{relative}:{node.lineno}: tests for the class {name}: call the interface, or ask `cannot`"
        for node in ast.walk(tree)
        for name in tested_classes(node)
        if name.endswith(SYNOPSIS)
    ]


def tested_classes(node: ast.AST) -> Iterator[str]:
    """The classes that a node tests a value for: `isinstance`, `issubclass`, or a class pattern of `match`."""
    tested: list[ast.AST] = []
    if isinstance(node, ast.Call) and getattr(node.func, "id", None) in {"isinstance", "issubclass"}:
        tested = list(node.args[1:])
    elif isinstance(node, ast.MatchClass):
        tested = [node.cls]
    for part in (inner for one in tested for inner in ast.walk(one)):
        if isinstance(part, ast.Name):
            yield part.id
        elif isinstance(part, ast.Attribute):
            yield part.attr


def room_of(relative: Path) -> str:
    """The room a file belongs to: its top folder, or its own name at the top."""
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def spark_problem(relative: Path) -> str | None:
    """Why this file may not import Spark; None if it may."""
    free = next((one for one in SPARK_FREE if relative.parts[: len(one)] == one), None)
    if free is not None:
        return f"{'/'.join(free)} stays free of {SPARK}"
    if room_of(relative) != SPARK_ROOM:
        return f"only {SPARK_ROOM} imports {SPARK}"
    return None


def room_problem(room: str, target: str) -> str | None:
    """Why a room may not import another; None if it may. Names of the package itself count as `__init__`."""
    target = target if target in RANK else "__init__"
    if target == room:
        return None
    if room in ONLY and target not in ONLY[room]:
        return f"{room} imports only {', '.join(sorted(ONLY[room]))}"
    if target in FOR_TESTS:
        return f"only tests and benchmarks import {target}"
    if RANK[target] > RANK[room]:
        return f"{target} comes after {room} in the layers"
    return None


def imported_modules(relative: Path, tree: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, absolute dotted module) of every import, wherever it stands, literal dynamic ones included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            module = absolute_module(relative, node)
            if module == PACKAGE:  # `from windrow import cql` names rooms, not the package
                for alias in node.names:
                    yield node.lineno, f"{PACKAGE}.{alias.name}"
            else:
                yield node.lineno, module
        elif isinstance(node, ast.Call):
            yield from dynamic_import(node)


def absolute_module(relative: Path, node: ast.ImportFrom) -> str:
    """The module that a `from … import` reads, with leading dots resolved."""
    if not node.level:
        return node.module or ""
    package = (PACKAGE, *relative.parent.parts)
    anchor = package[: len(package) - node.level + 1]
    return ".".join((*anchor, *(node.module.split(".") if node.module else ())))


def dynamic_import(node: ast.Call) -> Iterator[tuple[int, str]]:
    """The module named by `import_module("…")` or `__import__("…")`."""
    name = getattr(node.func, "attr", None) or getattr(node.func, "id", None)
    if name in {"import_module", "__import__"} and node.args:
        first = node.args[0]
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            yield node.lineno, first.value


def check_all_used(trees: dict[Path, ast.Module]) -> list[str]:
    """Every module can be reached by imports from an entrance, or from UNCHOSEN.

    What is reached from FOR_TESTS alone is not used by the product, nor is what an `__init__.py` passes on to nobody.
    """
    if Path("__init__.py") not in trees:
        return []
    modules = {dotted(relative): relative for relative in trees}
    imports = {relative: list(imported_names(relative, tree)) for relative, tree in trees.items()}
    reached: set[Path] = set()
    ahead = [one for one in trees if room_of(one) in ENTRANCES or one.as_posix() in UNCHOSEN]
    while ahead:
        relative = ahead.pop()
        if relative not in reached:
            reached.add(relative)
            for module, name in imports[relative]:
                ahead += files_of(module, name, modules, imports)
    return [
        f"{relative}:1: no module of {PACKAGE} uses it; what only tests use belongs in {', '.join(sorted(FOR_TESTS))}"
        for relative in sorted(trees)
        if relative not in reached and relative.name != "__init__.py" and room_of(relative) not in FOR_TESTS
    ]


def dotted(relative: Path) -> str:
    """The module that a file is; a folder's `__init__.py` is the folder."""
    parts = relative.with_suffix("").parts
    return ".".join((PACKAGE, *(parts[:-1] if parts[-1] == "__init__" else parts)))


def imported_names(relative: Path, tree: ast.Module) -> Iterator[Import]:
    """(module, name) of every `from module import name`, (module, None) of every other import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((absolute_module(relative, node), alias.name) for alias in node.names)
        elif isinstance(node, ast.Call):
            yield from ((module, None) for _, module in dynamic_import(node))


def files_of(module: str, name: str | None, modules: dict[str, Path], imports: dict[Path, list[Import]]) -> list[Path]:
    """The files that an import leads to: through an `__init__.py` to the file that it has the name from."""
    if name is not None and f"{module}.{name}" in modules:
        return files_of(f"{module}.{name}", None, modules, imports)
    if module not in modules:
        return []
    relative = modules[module]
    if relative.name != "__init__.py" or relative == Path("__init__.py"):
        return [relative]
    passed_on = [one for one in imports[relative] if name in (None, one[1])]
    return [path for source, part in passed_on for path in files_of(source, part, modules, imports)]


def check_only_reexports(relative: Path, tree: ast.Module) -> list[str]:
    """An `__init__.py` holds a docstring, imports (also for annotations alone) and `__all__`: code lives in files with
    a name."""
    return [
        f"{relative}:{node.lineno}: __init__.py only re-exports (imports, __all__, a docstring)"
        for index, node in enumerate(tree.body)
        if not is_reexport(index, node)
    ]


def is_reexport(index: int, node: ast.stmt) -> bool:
    """Whether a top-level statement of an `__init__.py` is of the permitted kinds."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return True
    if isinstance(node, ast.Assign):
        return all(isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets)
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return all(isinstance(one, ast.Import | ast.ImportFrom) for one in node.body) and not node.orelse
    is_text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_text and index == 0


def main(arguments: list[str]) -> int:
    """Checks the package of the checkout, or of the root given."""
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    package_dir = root / "src" / PACKAGE
    if not package_dir.is_dir():
        print(f"layers: no such directory: {package_dir}")
        return 1
    found = breaches(package_dir)
    for breach in found:
        print(f"src/{PACKAGE}/{breach}")
    print(f"layers: {len(found)} breaches" if found else "layers: in order")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
