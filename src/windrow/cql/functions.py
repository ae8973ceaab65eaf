"""The allow-list: the functions and the syntax that a query may use.

A function is allowed only by its name, and any other node of the tree only by its class. An error gives the reason and
the name of a similar function that is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from windrow.cql.dialect import (
    APPROXIMATE,
    HOLISTIC,
    OwnAggregate,
    RelationToStream,
    StreamTable,
    WindowedQuery,
)
from windrow.cql.time_texts import EPOCH, by_clock, how_to_write, is_read_by_clock, is_time_text
from windrow.cql.tokens import nearest, nearest_place, place_of
from windrow.errors import BindError, FunctionError, Place, UnsupportedError


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


AGGREGATES = _words("SUM COUNT AVG MEAN MIN MAX VARIANCE VAR_SAMP VAR_POP STDDEV STDDEV_SAMP STD STDDEV_POP")
"""Algebraic aggregates: a window's value is computed from the partial values of its panes."""

OWN_AGGREGATES = frozenset((*HOLISTIC, *APPROXIMATE))
"""Holistic aggregates, exact and approximate, with constant parameters. COUNT(DISTINCT …) is holistic too."""

AGGREGATE_NODES: tuple[type[exp.Expr], ...] = (
    exp.Sum,
    exp.Count,
    exp.Avg,
    exp.Min,
    exp.Max,
    exp.Variance,
    exp.VariancePop,
    exp.Stddev,
    exp.StddevSamp,
    exp.StddevPop,
    OwnAggregate,
)
"""The node classes of both: VARIANCE and VAR_SAMP are Variance, STDDEV and STD are Stddev."""

FINAL_FUNCTIONS = _words(
    "ABS CEIL CEILING FLOOR ROUND SQRT EXP LN LOG LOG2 LOG10 POW POWER SIGN SIGNUM MOD DIV COALESCE "
    "IFNULL NVL NVL2 NULLIF IF GREATEST LEAST ISNULL ISNOTNULL ISNAN NANVL NULLIFZERO ZEROIFNULL "
    "CONCAT LENGTH LEN CHAR_LENGTH CHARACTER_LENGTH SUBSTRING SUBSTR LEFT RIGHT REPLACE CAST YEAR "
    "MONTH DAY DAYOFMONTH HOUR MINUTE SECOND UNIX_MICROS UNIX_MILLIS UNIX_SECONDS TIMESTAMPDIFF OCTET_LENGTH "
    "CONTAINS STARTSWITH ENDSWITH LOCATE INSTR POSITION TRIM LTRIM RTRIM DATEDIFF"
)
"""Functions allowed over aggregates and group keys too, where DuckDB evaluates them; each is tested against Spark."""

ROW_FUNCTIONS = FINAL_FUNCTIONS | _words(
    # casts
    "BIGINT BINARY BOOLEAN DATE DECIMAL DOUBLE FLOAT INT SMALLINT STRING TIMESTAMP TINYINT TRY_CAST "
    # arithmetic
    "PMOD ACOS ACOSH ASIN ASINH ATAN ATAN2 ATANH BIN BROUND CBRT CONV COS COSH COT CSC DEGREES E "
    "EXPM1 FACTORIAL HEX HYPOT LOG1P NEGATIVE PI POSITIVE RADIANS RINT SEC SIN SINH TAN TANH TRY_ADD "
    "TRY_DIVIDE TRY_MULTIPLY TRY_SUBTRACT UNHEX WIDTH_BUCKET BIT_COUNT BIT_GET GETBIT SHIFTLEFT "
    "SHIFTRIGHT SHIFTRIGHTUNSIGNED "
    # strings
    "ASCII BASE64 BIT_LENGTH BTRIM CHAR CHR CONCAT_WS DECODE ELT ENCODE FIND_IN_SET "
    "FORMAT_NUMBER FORMAT_STRING GET_JSON_OBJECT ILIKE INITCAP IS_VALID_UTF8 LCASE LEVENSHTEIN "
    "LIKE LOWER LPAD LUHN_CHECK MAKE_VALID_UTF8 MASK OVERLAY "
    "PRINTF QUOTE REGEXP REGEXP_COUNT REGEXP_EXTRACT REGEXP_INSTR REGEXP_LIKE REGEXP_REPLACE "
    "REGEXP_SUBSTR REPEAT REVERSE RLIKE RPAD SOUNDEX SPACE SPLIT_PART "
    "SUBSTRING_INDEX TO_CHAR TO_NUMBER TRANSLATE TRY_TO_NUMBER TRY_VALIDATE_UTF8 UCASE UNBASE64 "
    "UPPER "
    # hashes
    "CRC32 HASH MD5 SHA SHA1 SHA2 XXHASH64 "
    # dates and times
    "ADD_MONTHS DATEADD DATEPART DATE_ADD DATE_DIFF DATE_FORMAT DATE_FROM_UNIX_DATE "
    "DATE_PART DATE_SUB DATE_TRUNC DAYNAME DAYOFWEEK DAYOFYEAR EXTRACT FROM_UNIXTIME "
    "FROM_UTC_TIMESTAMP LAST_DAY MAKE_DATE MAKE_TIMESTAMP MONTHNAME MONTHS_BETWEEN NEXT_DAY QUARTER "
    "TIMESTAMPADD TIMESTAMP_MICROS TIMESTAMP_MILLIS TIMESTAMP_SECONDS TO_DATE TO_TIMESTAMP "
    "TO_TIMESTAMP_NTZ TO_UNIX_TIMESTAMP TO_UTC_TIMESTAMP TRUNC TRY_TO_TIMESTAMP UNIX_DATE "
    "UNIX_TIMESTAMP WEEKDAY WEEKOFYEAR"
)
"""Deterministic functions of Spark SQL with scalar results; Spark evaluates them for each row."""

TABLE_FUNCTIONS = _words("ANSWERS CHANGES DEAD_LETTERS FRESHNESS")
"""Functions allowed in FROM."""

FINISHED_FUNCTIONS = _words(
    # aggregates
    "ANY_VALUE BOOL_AND BOOL_OR CORR COUNT_IF COVAR_POP COVAR_SAMP EVERY GROUPING GROUPING_ID KURTOSIS MAX_BY MIN_BY "
    "PERCENTILE SKEWNESS SOME "
    # with OVER (…)
    "CUME_DIST DENSE_RANK FIRST_VALUE LAG LAST_VALUE LEAD NTH_VALUE NTILE PERCENT_RANK RANK ROW_NUMBER"
)
"""Functions allowed only over answers and dead letters, where Spark evaluates the whole SELECT."""

_FINISHED_AGGREGATES = _words("MEDIAN APPROX_COUNT_DISTINCT")
"""Of OWN_AGGREGATES, those that Spark has too."""

_REASONS: dict[str, frozenset[str]] = {
    "it runs code outside of the query language": _words("REFLECT JAVA_METHOD TRY_REFLECT TRANSFORM_SCRIPT"),
    "it reads the session, the machine or the input files": _words(
        "CURRENT_CATALOG CURRENT_DATABASE CURRENT_SCHEMA CURRENT_TIMEZONE CURRENT_USER "
        "INPUT_FILE_BLOCK_LENGTH INPUT_FILE_BLOCK_START INPUT_FILE_NAME MONOTONICALLY_INCREASING_ID "
        "READ_FILES SESSION_USER SPARK_PARTITION_ID USER VERSION CURRENT_PATH GROUPING__ID"
    ),
    "the same input must always give the same answer": _words(
        "CURDATE CURRENT_DATE CURRENT_TIME CURRENT_TIMESTAMP LOCALTIMESTAMP NOW RAND RANDN RANDOM RANDSTR "
        "SHUFFLE UNIFORM UUID LOCALTIME"
    ),
    "functions on URLs are not allowed": _words("PARSE_URL TRY_PARSE_URL TRY_URL_DECODE URL_DECODE URL_ENCODE"),
    "it fails on purpose": _words("ASSERT_TRUE RAISE_ERROR"),
    "it turns one row into several": _words(
        "EXPLODE EXPLODE_OUTER INLINE INLINE_OUTER JSON_TUPLE POSEXPLODE POSEXPLODE_OUTER STACK"
    ),
    "window functions are not part of the language; a window follows the stream's name": _words(
        "CUME_DIST DENSE_RANK LAG LEAD NTH_VALUE NTILE PERCENT_RANK RANK ROW_NUMBER WINDOW_TIME"
    ),
    "functions that take a function are not allowed": _words(
        "AGGREGATE ARRAY_SORT EXISTS FILTER FORALL MAP_FILTER MAP_ZIP_WITH REDUCE TRANSFORM "
        "TRANSFORM_KEYS TRANSFORM_VALUES ZIP_WITH"
    ),
    "this version has no such aggregate": _words(
        "ANY ANY_VALUE APPROX_PERCENTILE ARRAY_AGG "
        "BIT_AND BIT_OR BIT_XOR BOOL_AND BOOL_OR COLLECT_LIST COLLECT_SET CORR COUNT_IF COVAR_POP "
        "COVAR_SAMP EVERY FIRST FIRST_VALUE KURTOSIS LAST LAST_VALUE LISTAGG MAX_BY "
        "MIN_BY MODE PERCENTILE PERCENTILE_APPROX REGR_AVGX REGR_AVGY REGR_COUNT REGR_SLOPE "
        "SKEWNESS SOME STRING_AGG"
    ),
    "values of a query are scalars": _words(
        "ARRAY FROM_JSON MAP NAMED_STRUCT PARSE_JSON SEQUENCE SPLIT STRUCT TO_JSON VARIANT_GET FROM_CSV FROM_XML"
    ),
    "a query spells out all names": _words("IDENTIFIER"),
}
_REASON_OF = {name: reason for reason, names in _REASONS.items() for name in names}

_TO_AGGREGATE = f"Aggregates are {', '.join(sorted(AGGREGATES | OWN_AGGREGATES))}, each with FILTER (WHERE …)."
_SAID_BY = {
    **dict.fromkeys(("PERCENTILE", "PERCENTILE_CONT", "PERCENTILE_DISC"), "QUANTILE(x, 0.99)"),
    **dict.fromkeys(("PERCENTILE_APPROX", "APPROX_PERCENTILE"), "APPROX_QUANTILE(x, 0.99)"),
    "MODE": "TOP_K(x, 1)",
    "COUNT_IF": "COUNT(*) FILTER (WHERE …)",
    **dict.fromkeys(("BOOL_AND", "EVERY"), "MIN(x), which is true if all are"),
    **dict.fromkeys(("BOOL_OR", "ANY", "SOME"), "MAX(x), which is true if any is"),
    "ANY_VALUE": "MIN(x), which is the same value every time",
}
"""How Windrow writes an aggregate that it does not have by this name."""
_TO_RANK = (
    "LIMIT n applies to the whole window. For the first n of each group write TOP_K(x, n), or TOP_K(x, n, weight), "
    "with GROUP BY."
)
_TO_OVER = (
    "There is no OVER. For the first n rows of a window write ORDER BY … LIMIT n; for the first n of each group "
    "TOP_K(x, n) with GROUP BY. For aggregates the window stands in FROM: FROM s [RANGE 10 MINUTES]."
)
_TO_WINDOW = "Write the window in FROM: FROM s [RANGE 10 MINUTES SLIDE 1 MINUTE]."
_TO_LEAVE_OUT = "Leave it out; docs/cql.md lists what this version executes."
_TO_FIND = "docs/cql.md lists the allowed functions under Functions."
_ONE_STREAM = "A one-time query reads one stream. A standing query may read several: CREATE QUERY name AS SELECT …"
IN_FROM = "FROM takes a stream, a query, answers('query'), changes('query') or dead_letters('stream')"
"""Why a function cannot stand in FROM."""
_REMEDIES = {
    "the same input must always give the same answer": "Use a column of the stream, such as its window attribute.",
    "window functions are not part of the language; a window follows the stream's name": _TO_OVER,
    "this version has no such aggregate": _TO_AGGREGATE,
    IN_FROM: _TO_WINDOW,
    "values of a query are scalars": "Take single values, for example with get_json_object or split_part.",
    "a query spells out all names": "Write the name itself.",
}
"""Remedies by the reason of an error."""

COMPARISON_NODES: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
"""Comparisons that are NULL beside NULL, with their operator."""

_PLAIN: frozenset[type[exp.Expr]] = frozenset(
    {
        *(exp.Identifier, exp.Literal, exp.Boolean, exp.Null, exp.HexString, exp.Paren, exp.Alias),
        *(exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod, exp.Neg, exp.DPipe),
        *(*COMPARISON_NODES, exp.NullSafeEQ, exp.NullSafeNEQ, exp.Is),
        *(exp.And, exp.Or, exp.Not, exp.Between, exp.Like, exp.ILike, exp.RegexpLike, exp.Escape),
        *(exp.BitwiseNot, exp.BitwiseLeftShift, exp.BitwiseRightShift),
        *(exp.Where, exp.Having, exp.From),
    }
)
"""Nodes that are always allowed: operators, literals, names and clauses without options."""

_PLAIN_ARGS = _words("this expression alias quoted is_string low high typed safe")

_FUNCTION_NODES: dict[type[exp.Expr], str] = {
    exp.Abs: "ABS",
    exp.Ceil: "CEIL",
    exp.Coalesce: "COALESCE",
    exp.Concat: "CONCAT",
    exp.Exp: "EXP",
    exp.Extract: "EXTRACT",
    exp.Floor: "FLOOR",
    exp.Greatest: "GREATEST",
    exp.Least: "LEAST",
    exp.Length: "LENGTH",
    exp.Ln: "LN",
    exp.Log: "LOG",
    exp.Lower: "LOWER",
    exp.Nullif: "NULLIF",
    exp.Nvl2: "NVL2",
    exp.Overlay: "OVERLAY",
    exp.Pow: "POWER",
    exp.Round: "ROUND",
    exp.Sign: "SIGN",
    exp.Sqrt: "SQRT",
    exp.StrPosition: "LOCATE",
    exp.Substring: "SUBSTRING",
    exp.Trim: "TRIM",
    exp.Upper: "UPPER",
}
"""Functions with their own node class in the dialect; the others are exp.Anonymous."""

_SCALAR_TYPES = frozenset(
    {
        exp.DType.BOOLEAN,
        exp.DType.TINYINT,
        exp.DType.SMALLINT,
        exp.DType.INT,
        exp.DType.BIGINT,
        exp.DType.FLOAT,
        exp.DType.DOUBLE,
        exp.DType.DECIMAL,
        exp.DType.TEXT,
        exp.DType.BINARY,
        exp.DType.DATE,
        exp.DType.TIMESTAMP,
        exp.DType.TIMESTAMPTZ,
        exp.DType.TIMESTAMPLTZ,
        exp.DType.TIMESTAMPNTZ,
    }
)

_SUPPORTED_ARGS: dict[type[exp.Expr], frozenset[str]] = {
    exp.Select: _words("expressions from_ where group having order limit kind"),
    exp.Table: _words("this alias"),
    StreamTable: _words("this alias window"),
    exp.TableAlias: _words("this"),
    exp.Column: _words("this table"),
    exp.Group: _words("expressions"),
    exp.Order: _words("expressions"),
    exp.Ordered: _words("this desc nulls_first"),
    exp.Limit: _words("expression"),
    exp.Filter: _words("this expression"),
    exp.Star: frozenset(),
    exp.In: _words("this expressions"),
    exp.Case: _words("this ifs default"),
    exp.If: _words("this true false"),
    exp.Cast: _words("this to"),
    exp.TryCast: _words("this to safe"),
    exp.DataType: _words("this expressions nested"),
    exp.DataTypeParam: _words("this"),
    exp.Interval: _words("this unit"),
    exp.IntervalSpan: _words("this expression"),
    exp.Var: _words("this"),
    exp.Count: _words("this big_int"),
    exp.Distinct: _words("expressions"),
    exp.BitwiseAnd: _words("this expression"),
    exp.BitwiseOr: _words("this expression"),
    exp.BitwiseXor: _words("this expression"),
}
"""Nodes that are allowed if they have no other arguments than these."""


_BITWISE = (exp.BitwiseAnd, exp.BitwiseOr, exp.BitwiseXor)


def is_aggregate(node: exp.Expr) -> bool:
    """Whether the node is a call of one of AGGREGATES or OWN_AGGREGATES (without the FILTER around it)."""
    return isinstance(node, AGGREGATE_NODES)


def function_name(node: exp.Expr) -> str | None:
    """The name of the function that a node calls, in upper case; None for operators and other nodes."""
    if isinstance(node, exp.Anonymous):
        return node.name.upper()
    if isinstance(node, OwnAggregate):
        return str(node.this)
    if is_aggregate(node):
        return str(node.sql_name()) if isinstance(node, exp.Func) else None
    return _FUNCTION_NODES.get(type(node))


def check_functions(tree: exp.Expr, text: str, syntax: Syntax | None = None) -> None:
    """Check that every node of the tree is allowed, by default in a query over a stream.

    Raises FunctionError for a function and UnsupportedError for other syntax. `text` is the script that the tree was
    parsed from.
    """
    syntax = syntax or OVER_STREAMS
    for node in tree.walk():
        kind = type(node)
        if kind is exp.Literal and not node.args["is_string"]:
            _check_number(node, text)
        if kind in _PLAIN and all(key in _PLAIN_ARGS or not value for key, value in node.args.items()):
            continue
        place = nearest_place(node, text)
        if isinstance(node, exp.Anonymous):
            _check_anonymous(node, place, syntax.functions)
        elif check := syntax.checks.get(kind):
            check(node, place)
        if isinstance(node, exp.Anonymous) or kind in _FUNCTION_NODES or is_aggregate(node) and kind is not exp.Count:
            continue
        _check_arguments(node, place, syntax.arguments)


def check_names(tree: exp.Expr, text: str, columns: Collection[str]) -> None:
    """Refuse names such as `user` that Spark would read as a function, unless they are columns (lower case) or aliases
    that their place can see."""
    for column in tree.find_all(exp.Column):
        reason, name = _REASON_OF.get(column.name.upper()), column.name.lower()
        if not column.table and reason is not None and name not in columns and name not in _aliases(tree, column):
            raise _refused_function(column.name.upper(), reason, place_of(column, text), ())


def _aliases(tree: exp.Expr, column: exp.Column) -> set[str]:
    """The aliases of a query, in lower case, without those of a select list whose WHERE the column is in."""
    where = column.find_ancestor(exp.Where, exp.Select)
    hidden = where.parent if isinstance(where, exp.Where) else None
    return {alias.alias.lower() for alias in tree.find_all(exp.Alias) if alias.parent is not hidden}


MAX_DIGITS = 38
"""The most digits of a number: those of a DECIMAL."""
_MAX_EXPONENT = 400
_NUMBER = re.compile(r"(\d*\.?\d*)(?:[eE]([+-]?\d+))?[a-zA-Z]*")


def _check_number(node: exp.Expr, text: str) -> None:
    """Refuse numbers that no type holds, before Spark and DuckDB read them."""
    match = _NUMBER.fullmatch(node.name)
    digits, exponent = (len(match[1].replace(".", "")), match[2] or "0") if match else (0, "0")
    if digits > MAX_DIGITS:
        raise BindError(
            f"a number has at most {MAX_DIGITS} digits, and this one has {digits:,}",
            place=_short_place(node, text),
            remedy="Leave out digits, or write it with an exponent, for example 1.5e40.",
        )
    if len(exponent) > 5 or abs(int(exponent)) > _MAX_EXPONENT:
        raise BindError(
            f"the exponent of a number is from -{_MAX_EXPONENT} to {_MAX_EXPONENT}",
            place=_short_place(node, text),
            remedy="A DOUBLE holds up to 1.7e308.",
        )


def _short_place(node: exp.Expr, text: str) -> Place | None:
    """The place of a number, with a short caret."""
    place = nearest_place(node, text)
    return None if place is None else replace(place, length=min(place.length, 10))


def _check_arguments(node: exp.Expr, place: Place | None, arguments: Mapping[type[exp.Expr], frozenset[str]]) -> None:
    supported = arguments.get(type(node))
    if supported is None:
        raise _refused_node(node, place)
    for key, value in node.args.items():
        if key not in supported and value not in (None, False, []):
            what = _KEY_NAMES.get(key, key.strip("_").upper().replace("_", " "))
            remedy = _KEY_REMEDIES.get(key, _TO_LEAVE_OUT)
            if isinstance(node, exp.Limit) and key == "expressions":
                what, remedy = "LIMIT n BY …", _TO_RANK
            raise UnsupportedError(
                f"{what} is not supported by this version", place=_first_place(value, place), remedy=remedy
            )


def _first_place(value: object, default: Place | None) -> Place | None:
    nodes = value if isinstance(value, list) else [value]
    text = default.text if default is not None else None
    for node in nodes:
        if isinstance(node, exp.Expr) and text is not None and (place := place_of(node, text)):
            return place
    return default


_KEY_NAMES = {
    "joins": "a join",
    "laterals": "LATERAL VIEW",
    "with_": "WITH",
    "db": "a name with a schema",
    "catalog": "a name with a catalog",
    "sample": "TABLESAMPLE",
    "pivots": "PIVOT",
    "hint": "a hint",
    "into": "SELECT … INTO",
    "distinct": "DISTINCT",
    "query": "a sub-query",
    "columns": "a column list after an alias",
    "except_": "* EXCEPT",
    "offset": "OFFSET",
    "windows": "WINDOW",
    "expressions": "COUNT of several columns",
}
_KEY_REMEDIES = {
    "joins": _ONE_STREAM,
    "distinct": "Use GROUP BY on the same columns.",
    "db": "Write the stream's name alone.",
    "catalog": "Write the stream's name alone.",
    "expressions": "Count one column, or rows with COUNT(*).",
    "query": _ONE_STREAM,
}
_NODE_NAMES: Mapping[type[exp.Expr], str] = {
    exp.Subquery: "a sub-query",
    WindowedQuery: "a sub-query",
    RelationToStream: "ISTREAM, DSTREAM, RSTREAM or WSTREAM here",
    exp.Exists: "EXISTS",
    exp.Window: "OVER (…)",
    exp.Distinct: "DISTINCT",
    exp.Join: "a join",
    exp.Lambda: "a lambda",
    exp.Kwarg: "a named argument",
    exp.Placeholder: "a parameter",
    exp.Parameter: "a parameter",
    exp.SessionParameter: "a session variable",
    exp.Dot: "access to a field",
    exp.Bracket: "access to an element",
    exp.Tuple: "a list of values outside of IN (…)",
    exp.Collate: "COLLATE",
    exp.Rollup: "ROLLUP",
    exp.Cube: "CUBE",
    exp.GroupingSets: "GROUPING SETS",
    exp.WithinGroup: "WITHIN GROUP",
    exp.Any: "ANY (…)",
    exp.Interval: "an interval that is not added to or subtracted from a time",
}


_NODE_REMEDIES: Mapping[type[exp.Expr], str] = {
    exp.Window: _TO_OVER,
    exp.Join: _ONE_STREAM,
    exp.Subquery: _ONE_STREAM,
    WindowedQuery: _ONE_STREAM,
    RelationToStream: "It stands in a standing query, around the whole select list: SELECT ISTREAM(a, b) FROM …",
    exp.Rollup: "Create a query for each GROUP BY.",
    exp.Cube: "Create a query for each GROUP BY.",
    exp.GroupingSets: "Create a query for each GROUP BY.",
    exp.Interval: "Add it to a time, for example ts + INTERVAL '1' HOUR.",
}


def _refused_node(node: exp.Expr, place: Place | None) -> UnsupportedError | FunctionError:
    if isinstance(node, exp.Func) and type(node) not in _NODE_NAMES:
        name = node.sql_name()
        reason = _REASON_OF.get(name)
        return _refused_function(name, reason, place, ROW_FUNCTIONS | AGGREGATES | OWN_AGGREGATES)
    what = _NODE_NAMES.get(type(node), f"{type(node).__name__.upper()}")
    remedy = _NODE_REMEDIES.get(type(node), _TO_LEAVE_OUT)
    return UnsupportedError(f"{what} is not supported by this version", place=place, remedy=remedy)


def _refused_function(name: str, reason: str | None, place: Place | None, known: Iterable[str]) -> FunctionError:
    guess = nearest(name, sorted(known), 0.75) if reason is None else None
    if reason is None and name.startswith("AI_"):
        reason = "it calls a model"
    message = f"the function {name} is not allowed" + (f": {reason}" if reason else "")
    remedy = f"Did you mean {guess}?" if guess else _REMEDIES.get(reason or "", _TO_FIND)
    if name in _SAID_BY:
        remedy = f"Write {_SAID_BY[name]}."
    return FunctionError(message, place=place, remedy=remedy)


def _check_anonymous(node: exp.Anonymous, place: Place | None, allowed: frozenset[str]) -> None:
    name = node.name.upper()
    if isinstance(node.parent, exp.Table):
        if name not in TABLE_FUNCTIONS:
            raise _refused_function(name, IN_FROM, place, ())
        return
    if name not in allowed:
        raise _refused_function(name, _REASON_OF.get(name), place, allowed | AGGREGATES | OWN_AGGREGATES)
    if name in ("UNIX_TIMESTAMP", "TO_UNIX_TIMESTAMP") and not node.expressions:
        raise _refused_function(f"{name}()", "without an argument it is the current time", place, ())


def _check_type(node: exp.Expr, place: Place | None) -> None:
    numbers = [str(part.this.name) for part in node.expressions if isinstance(part, exp.DataTypeParam)]
    if node.this is exp.DType.DECIMAL and any(len(n) > 2 or int(n) > MAX_DIGITS for n in numbers if n.isdigit()):
        raise BindError(
            f"DECIMAL takes a precision from 1 to {MAX_DIGITS} and a scale up to the precision",
            place=place,
            remedy="For example DECIMAL(38, 2).",
        )
    if node.this not in _SCALAR_TYPES or node.args.get("nested"):
        raise UnsupportedError(
            "values of a query are scalars: no arrays, maps, structs or intervals",
            place=place,
            remedy="Cast to a type such as INT, DOUBLE, STRING or TIMESTAMP.",
        )


_TIME_TYPES = frozenset(
    {
        exp.DType.DATE,
        exp.DType.TIMESTAMP,
        exp.DType.TIMESTAMPTZ,
        exp.DType.TIMESTAMPLTZ,
        exp.DType.TIMESTAMPNTZ,
    }
)


def _check_time_text(node: exp.Expr, place: Place | None) -> None:
    """Refuse DATE 'x' and CAST('x' AS TIMESTAMP) if x is no day of the calendar, or read by the clock."""
    value, kind = node.this, node.args["to"]
    if not (isinstance(value, exp.Literal) and value.is_string and kind.this in _TIME_TYPES):
        return
    is_date = kind.this is exp.DType.DATE
    if is_read_by_clock(value.name, is_date):
        raise BindError(by_clock(value.name), place=place, remedy=how_to_write(is_date))
    is_readable = is_time_text(value.name, is_date) or value.name.strip().lower() == EPOCH
    if not is_readable and not isinstance(node, exp.TryCast):
        what = "DATE" if is_date else "TIMESTAMP"
        raise BindError(f"'{value.name}' is no {what}", place=place, remedy=how_to_write(is_date))


def _check_bitwise(node: exp.Expr, place: Place | None) -> None:
    """Refuse &, ^ and | without parentheses: they differ in precedence in Spark, but not in sqlglot."""
    for side in (node.this, node.expression):
        if isinstance(side, _BITWISE) and type(side) is not type(node):
            raise UnsupportedError(
                "a mix of &, ^ and | is ambiguous", place=place, remedy="Add parentheses: (a & b) | c."
            )


def _check_select(node: exp.Expr, place: Place | None) -> None:
    if node.parent is not None:
        raise UnsupportedError("a sub-query is not supported by this version", place=place, remedy=_ONE_STREAM)


def _check_distinct(node: exp.Expr, place: Place | None) -> None:
    """Refuse DISTINCT in other aggregates than COUNT; SELECT DISTINCT is refused with the Select node."""
    call = node.parent
    if call is not None and is_aggregate(call) and not isinstance(call, exp.Count):
        raise UnsupportedError(
            f"this version does not execute {function_name(call)}(DISTINCT …) yet",
            place=place,
            remedy="Use COUNT(DISTINCT …), or add the column to GROUP BY: each distinct value then has a row.",
        )


def _check_filter(node: exp.Expr, place: Place | None) -> None:
    if not is_aggregate(node.this):
        raise UnsupportedError("FILTER follows an aggregate", place=place, remedy=_TO_AGGREGATE)


def _check_star(node: exp.Expr, place: Place | None) -> None:
    if isinstance(node.parent, exp.Distinct):
        raise UnsupportedError(
            "COUNT(DISTINCT …) takes columns, not *",
            place=place,
            remedy="Name the columns: COUNT(DISTINCT a, b). COUNT(*) counts rows.",
        )
    _inside(exp.Select, exp.Count, exp.Column, RelationToStream)(node, place)


def _check_to_stream(node: exp.Expr, place: Place | None) -> None:
    """WSTREAM may also stand inside an aggregate."""
    if not (node.this == "WSTREAM" and isinstance(node.parent, exp.AggFunc)):
        _inside(exp.Select, exp.Alias)(node, place)


def _check_tuple(node: exp.Expr, place: Place | None) -> None:
    """Refuse (a, b) anywhere but before IN (SELECT …)."""
    if not (isinstance(node.parent, exp.In) and node.parent.args.get("query") and node.arg_key == "this"):
        raise _refused_node(node, place)


def _inside(*parents: type[exp.Expr]) -> Callable[[exp.Expr, Place | None], None]:
    """A check that allows a node only directly under one of `parents`, or as the root of the tree."""

    def check(node: exp.Expr, place: Place | None) -> None:
        if node.parent is not None and not isinstance(node.parent, parents):
            raise _refused_node(node, place)

    return check


_SPECIAL: dict[type[exp.Expr], Callable[[exp.Expr, Place | None], None]] = {
    exp.Select: _check_select,
    **dict.fromkeys(_BITWISE, _check_bitwise),
    exp.DataType: _check_type,
    **dict.fromkeys((exp.Cast, exp.TryCast), _check_time_text),
    exp.Filter: _check_filter,
    exp.Distinct: _check_distinct,
    exp.Table: _inside(exp.From),
    StreamTable: _inside(exp.From),
    exp.Order: _inside(exp.Select),
    exp.Limit: _inside(exp.Select),
    exp.Star: _check_star,
    exp.Interval: _inside(exp.Add, exp.Sub),
    exp.Var: _inside(exp.Interval, exp.IntervalSpan, exp.Extract, exp.Anonymous),
}


@dataclass(frozen=True)
class Syntax:
    """What a SELECT may use: arguments of nodes, checks of nodes, and functions of rows."""

    arguments: Mapping[type[exp.Expr], frozenset[str]]
    checks: Mapping[type[exp.Expr], Callable[[exp.Expr, Place | None], None]]
    functions: frozenset[str]


def _check_own_aggregate(node: exp.Expr, place: Place | None) -> None:
    if node.this not in _FINISHED_AGGREGATES:
        raise UnsupportedError(
            f"{node.this} aggregates windows of a stream, not answers or dead letters",
            place=place,
            remedy="Use it in the standing query. Here, for example PERCENTILE(x, 0.9), or ORDER BY … LIMIT n.",
        )


OVER_STREAMS = Syntax(_SUPPORTED_ARGS, _SPECIAL, ROW_FUNCTIONS)

_SET_OPERATION = _words("this expression distinct order limit offset with_")
_QUERIES = (exp.Select, exp.Union, exp.Except, exp.Intersect)

OVER_SEVERAL = Syntax(
    {
        **_SUPPORTED_ARGS,
        exp.Select: _SUPPORTED_ARGS[exp.Select] | _words("joins distinct with_"),
        **dict.fromkeys(_QUERIES[1:], _words("this expression distinct order limit with_")),
        exp.With: _words("expressions"),
        exp.CTE: _words("this alias"),
        exp.Subquery: _words("this alias"),
        WindowedQuery: _words("this alias window"),
        exp.Join: _words("this on using side kind"),
        exp.Exists: _words("this"),
        exp.In: _words("this expressions query"),
        exp.Tuple: _words("expressions"),
        RelationToStream: _words("this expressions restore window"),
    },
    {
        **{kind: check for kind, check in _SPECIAL.items() if kind is not exp.Select},
        exp.Table: _inside(exp.From, exp.Join),
        StreamTable: _inside(exp.From, exp.Join),
        exp.Subquery: _inside(exp.From, exp.Join, *_QUERIES[1:], exp.Subquery, exp.In, exp.Exists),
        exp.Tuple: _check_tuple,
        WindowedQuery: _inside(exp.From, exp.Join),
        RelationToStream: _check_to_stream,
        exp.Order: _inside(*_QUERIES),
        exp.Limit: _inside(*_QUERIES),
    },
    ROW_FUNCTIONS,
)
"""What a continuous query may use: several streams, sub-queries, WITH, UNION, EXCEPT and INTERSECT."""

OVER_TABLES = Syntax(
    {
        **_SUPPORTED_ARGS,
        exp.Select: _words("expressions from_ where group having order limit kind joins distinct with_ windows offset"),
        exp.Union: _SET_OPERATION,
        exp.Except: _SET_OPERATION,
        exp.Intersect: _SET_OPERATION,
        exp.With: _words("expressions"),
        exp.CTE: _words("this alias"),
        exp.Subquery: _words("this alias"),
        exp.Exists: _words("this"),
        exp.Join: _words("this on using side kind method"),
        exp.TableAlias: _words("this columns"),
        exp.Offset: _words("expression"),
        exp.In: _words("this expressions query"),
        exp.Tuple: _words("expressions"),
        exp.Group: _words("expressions all rollup cube grouping_sets"),
        exp.Rollup: _words("expressions"),
        exp.Cube: _words("expressions"),
        exp.GroupingSets: _words("expressions"),
        exp.Star: _words("except_"),
        exp.Window: _words("this partition_by order spec over alias"),
        exp.WindowSpec: _words("kind start start_side end end_side"),
        exp.IgnoreNulls: _words("this"),
    },
    {
        **{kind: check for kind, check in _SPECIAL.items() if kind not in (exp.Select, exp.Distinct, exp.Interval)},
        exp.Table: _inside(exp.From, exp.Join),
        exp.Order: _inside(*_QUERIES, exp.Window),
        exp.Limit: _inside(*_QUERIES),
        exp.Tuple: _inside(exp.In, exp.GroupingSets, exp.Rollup, exp.Cube),
        OwnAggregate: _check_own_aggregate,
    },
    ROW_FUNCTIONS | FINISHED_FUNCTIONS,
)
"""What a one-time query over answers and dead letters may use: Spark evaluates it whole."""
