"""Translate expressions over aggregates and group keys to DuckDB SQL with Spark's results (ANSI off).

The driver computes the select list, HAVING and ORDER BY of an answer. `finalize` translates one such expression, in
which columns stand for aggregates and keys, and returns its Spark type. It knows the type of every part, so integers
wrap, division by zero is NULL and DECIMALs keep their digits as in Spark. Expressions whose results would differ raise
FunctionError.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from sqlglot import exp

from windrow.cql.dialect import Let, MaxValueBytes
from windrow.cql.final.casts import cast_sql, double_sql, wide, wrap
from windrow.cql.final.functions import FUNCTIONS, cast_all, concatenation, conditional, timestamp_difference
from windrow.cql.final.types import (
    BIGINT,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    MAX_PRECISION,
    STRING,
    VOID,
    Final,
    as_decimal,
    common_type,
    duckdb_type,
    number_literal,
)
from windrow.cql.functions import COMPARISON_NODES, function_name
from windrow.cql.intervals import to_microseconds
from windrow.cql.tokens import place_of
from windrow.errors import FunctionError, ParseError
from windrow.types import UNITS_US, SqlType, decimal_type

Types = Mapping[str, SqlType]
_MAX_LENGTH = 200_000
_TIME = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[ T](\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?))?")


def to_duckdb(expression: exp.Expr, types: Types, text: str | None = None) -> str:
    """The DuckDB SQL of an expression over the columns of `types`; see `finalize`."""
    return finalize(expression, types, text).sql


def finalize(expression: exp.Expr, types: Types, text: str | None = None) -> Final:
    """The DuckDB SQL and the Spark type of an expression over the columns of `types`.

    `text` is the script of the expression, for places in errors. TIMESTAMP columns are naive UTC in DuckDB.
    """
    result = _Translator(types, text, expression.unnest()).translate(expression)
    if len(result.sql) > _MAX_LENGTH:
        raise FunctionError("the expression over aggregates is too long")
    return result


def ordered_by(sql: str, descending: bool, nulls_first: bool) -> str:
    """A term of a DuckDB statement's ORDER BY that orders as Spark does, which has always a place for NULLs."""
    return f"{sql} {'DESC' if descending else 'ASC'} NULLS {'FIRST' if nulls_first else 'LAST'}"


class _Translator:
    def __init__(self, types: Types, text: str | None, whole: exp.Expr):
        self.types = types
        self.text = text
        self.whole = whole

    def translate(self, node: exp.Expr) -> Final:
        rule = _RULES.get(type(node))
        result = rule(self, node) if rule is not None else self._function(node)
        if result is None:
            raise self._refused(node)
        return result

    def all(self, nodes: list[exp.Expr]) -> list[Final]:
        return [self.translate(node) for node in nodes]

    def _function(self, node: exp.Expr) -> Final | None:
        name = function_name(node)
        if isinstance(node, exp.Anonymous) and name == "TIMESTAMPDIFF" and len(node.expressions) == 3:
            unit, start, end = node.expressions
            return timestamp_difference(unit.name, self.translate(start), self.translate(end))
        build = FUNCTIONS.get(name or "")
        return build(self.all(_arguments(node))) if build is not None else None

    def _refused(self, node: exp.Expr) -> FunctionError:
        what = function_name(node) or _OPERATORS.get(type(node)) or node.key.upper()
        arguments, is_numeric = [], False
        for child in node.iter_expressions():
            try:
                kind = self.translate(child).type
                arguments.append(str(kind))
                is_numeric |= kind.is_numeric
            except (FunctionError, ValueError):
                continue
        of = f" of {', '.join(arguments)}" if arguments else ""
        to_cast = "; CAST numbers to DOUBLE" if is_numeric else ""
        return FunctionError(
            f"{what}{of} cannot be used over aggregates and group keys",
            place=place_of(node, self.text) if self.text is not None else None,
            remedy=f"Use it inside an aggregate or in GROUP BY, where Spark evaluates it{to_cast}.",
        )


def _arguments(node: exp.Expr) -> list[exp.Expr]:
    """A function's arguments in written order, as many as there are."""
    keys = ("this", "expression", "expressions", "decimals", "start", "length", "true", "false")
    parts = [node.args.get(key) for key in keys if not (key == "this" and isinstance(node, exp.Anonymous))]
    nodes: list[exp.Expr] = []
    for part in parts:
        nodes += part if isinstance(part, list) else [part] if isinstance(part, exp.Expr) else []
    return nodes


def _column(self: _Translator, node: exp.Expr) -> Final | None:
    type_ = self.types.get(node.name)
    if type_ is not None and type_.is_nested and node is not self.whole:
        raise FunctionError(
            f"nothing can be computed from a value of type {type_}",
            remedy="Select it alone, without an operator or function.",
        )
    quoted = node.name.replace('"', '""')
    return Final(f'"{quoted}"', type_) if type_ is not None else None


def _literal(self: _Translator, node: exp.Expr) -> Final | None:
    value = str(node.this)
    if not node.is_string:
        return number_literal(value)
    return Final(_string(value), STRING) if "\0" not in value else None


def _string(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _negative(self: _Translator, node: exp.Expr) -> Final | None:
    """Unary minus in DuckDB SQL; the least integer wraps to itself."""
    if isinstance(node.this, exp.Literal) and not node.this.is_string:
        return number_literal(f"-{node.this.this}")
    value = self.translate(node.this)
    if value.type.is_integer:
        return Final(wrap(f"-{wide(value.sql, value.type)}", value.type), value.type)
    return Final(f"(-{value.sql})", value.type) if value.type.is_numeric else None


def _arithmetic(operator: str) -> Callable[[_Translator, exp.Expr], Final | None]:
    def rule(self: _Translator, node: exp.Expr) -> Final | None:
        sides = [self.translate(node.this), self.translate(node.expression)]
        if not all(side.type.is_numeric for side in sides):
            return None
        if any(side.type.is_decimal for side in sides) and not any(side.type.is_float for side in sides):
            return _decimal_arithmetic(operator, *sides)
        type_ = common_type(sides)
        casts = cast_all(sides, type_) if type_ is not None else None
        if type_ is None or casts is None:
            return None
        left, right = casts
        divisor = f"nullif({right}, CAST(0 AS {duckdb_type(type_)}))" if operator == "%" else right
        if type_.is_float:
            return Final(f"({left} {operator} {divisor})", type_)
        return Final(wrap(f"({wide(left, type_)} {operator} {wide(divisor, type_)})", type_), type_)

    return rule


def _sum(operator: str) -> Callable[[_Translator, exp.Expr], Final | None]:
    """Addition or subtraction, of numbers, or of a time and an interval of a fixed length."""
    numbers = _arithmetic(operator)

    def rule(self: _Translator, node: exp.Expr) -> Final | None:
        value, length = node.this, node.expression.unnest()
        if operator == "+" and isinstance(value.unnest(), exp.Interval):
            value, length = length, value.unnest()
        if not isinstance(length, exp.Interval):
            return numbers(self, node)
        return _moved(self.translate(value), length, operator)

    return rule


def _moved(value: Final, length: exp.Interval, operator: str) -> Final | None:
    """The time so much later or earlier. Of a DATE, Spark takes whole days alone, or else makes a TIMESTAMP."""
    number, unit = length.this, length.args.get("unit")
    if not isinstance(number, exp.Literal) or not isinstance(unit, exp.Var):
        return None
    try:
        amount_us = to_microseconds(number.name, unit.name)
    except ParseError:
        return None
    if value.type.is_timestamp:
        return Final(f"({value.sql} {operator} to_microseconds(CAST({amount_us} AS BIGINT)))", value.type)
    if value.type == DATE and unit.name.upper().removesuffix("S") in ("DAY", "WEEK"):
        days = amount_us // UNITS_US["DAY"]
        return Final(f"({value.sql} {operator} CAST({days} AS INTEGER))", DATE) if days < 2**31 else None
    return None


def _decimal_arithmetic(operator: str, left: Final, right: Final) -> Final | None:
    """The operation with Spark's result type; None above 38 digits, where Spark would round."""
    (precision1, scale1), (precision2, scale2) = as_decimal(left), as_decimal(right)
    scale = max(scale1, scale2)
    whole = max(precision1 - scale1, precision2 - scale2)
    inner: tuple[SqlType, SqlType] | None
    if operator == "*":
        precision, scale = precision1 + precision2 + 1, scale1 + scale2
        # DuckDB takes the precision of the product from its left side; with 38 digits it cannot overflow
        inner = (decimal_type(MAX_PRECISION, scale1), decimal_type(precision2, scale2))
    elif operator == "%":
        precision = min(precision1 - scale1, precision2 - scale2) + scale
        inner = (decimal_type(whole + scale, scale),) * 2 if whole + scale <= MAX_PRECISION else None
    else:
        precision = whole + scale + 1
        inner = (decimal_type(precision, scale),) * 2 if precision <= MAX_PRECISION else None
    if precision > MAX_PRECISION or inner is None:
        return None
    type_ = decimal_type(precision, scale)
    one, other = (f"CAST({side.sql} AS {kind})" for side, kind in zip((left, right), inner, strict=True))
    divisor = f"nullif({other}, 0)" if operator == "%" else other
    return Final(f"CAST(({one} {operator} {divisor}) AS {type_})", type_)


def _divide(self: _Translator, node: exp.Expr) -> Final | None:
    """Division as DOUBLE, NULL for division by zero. None for DECIMALs: DuckDB cannot compute all their digits."""
    left, right = self.translate(node.this), self.translate(node.expression)
    if not (left.type.is_numeric and right.type.is_numeric):
        return None
    exact = any(side.type.is_decimal for side in (left, right))
    if exact and not any(side.type.is_float for side in (left, right)):
        return None
    return Final(f"({double_sql(left)} / nullif({double_sql(right)}, CAST(0 AS DOUBLE)))", DOUBLE)


def _integer_divide(self: _Translator, node: exp.Expr) -> Final | None:
    left, right = self.translate(node.this), self.translate(node.expression)
    if not (left.type.is_integer and right.type.is_integer):
        return None
    quotient = f"({wide(left.sql, BIGINT)} // nullif({wide(right.sql, BIGINT)}, CAST(0 AS HUGEINT)))"
    return Final(wrap(quotient, BIGINT), BIGINT)


def _comparison(operator: str) -> Callable[[_Translator, exp.Expr], Final | None]:
    def rule(self: _Translator, node: exp.Expr) -> Final | None:
        return _compare(operator, self.translate(node.this), self.translate(node.expression))

    return rule


def _compare(operator: str, left: Final, right: Final) -> Final | None:
    left, right = _time_beside(left, right), _time_beside(right, left)
    type_ = common_type([left, right], comparing=True)
    casts = cast_all([left, right], type_) if type_ is not None and type_.name != "BINARY" else None
    return Final(f"({casts[0]} {operator} {casts[1]})", BOOLEAN) if casts is not None else None


def _time_beside(value: Final, other: Final) -> Final:
    """A string literal compared with a time, as a time if it has the form of one; else the value itself."""
    if value.type == STRING and (other.type.is_timestamp or other.type == DATE) and value.sql.startswith("'"):
        return _time_literal(value.sql.strip("'"), other.type) or value
    return value


def _time_literal(text: str, type_: SqlType) -> Final | None:
    match = _TIME.fullmatch(text)
    if match is None or (type_ == DATE and match.group(2)):
        return None
    time = match.group(2) or "00:00:00"
    clock = time if time.count(":") == 2 else f"{time}:00"
    sql = f"TRY_CAST('{match.group(1)} {clock}' AS TIMESTAMP)"
    return Final(f"CAST({sql} AS DATE)" if type_ == DATE else sql, type_)


def _logical(operator: str) -> Callable[[_Translator, exp.Expr], Final | None]:
    def rule(self: _Translator, node: exp.Expr) -> Final | None:
        sides = [self.translate(node.this), self.translate(node.expression)]
        if any(side.type not in (BOOLEAN, VOID) for side in sides):
            return None
        left, right = (f"CAST({side.sql} AS BOOLEAN)" if side.type == VOID else side.sql for side in sides)
        return Final(f"({left} {operator} {right})", BOOLEAN)

    return rule


def _not(self: _Translator, node: exp.Expr) -> Final | None:
    value = self.translate(node.this)
    return Final(f"(NOT {value.sql})", BOOLEAN) if value.type == BOOLEAN else None


def _is(self: _Translator, node: exp.Expr) -> Final | None:
    value = self.translate(node.this)
    if isinstance(node.expression, exp.Null):
        return Final(f"({value.sql} IS NULL)", BOOLEAN)
    if isinstance(node.expression, exp.Boolean) and value.type == BOOLEAN:
        return Final(f"({value.sql} IS {'TRUE' if node.expression.this else 'FALSE'})", BOOLEAN)
    return None


def _between(self: _Translator, node: exp.Expr) -> Final | None:
    if {key for key, value in node.args.items() if value} != {"this", "low", "high"}:
        return None
    value = self.translate(node.this)
    low = _compare(">=", value, self.translate(node.args["low"]))
    high = _compare("<=", value, self.translate(node.args["high"]))
    return Final(f"({low.sql} AND {high.sql})", BOOLEAN) if low and high else None


def _in(self: _Translator, node: exp.Expr) -> Final | None:
    if not node.expressions:
        return None
    value, *others = self.all([node.this, *node.expressions])
    members = [value, *(_time_beside(other, value) for other in others)]
    type_ = common_type(members)
    casts = cast_all(members, type_) if type_ is not None and type_.name not in ("BINARY", "VOID") else None
    return Final(f"({casts[0]} IN ({', '.join(casts[1:])}))", BOOLEAN) if casts is not None else None


def _like(self: _Translator, node: exp.Expr) -> Final | None:
    """LIKE; None for a literal pattern whose escapes Spark would not accept. With a pattern from a column such a value
    is an error when it is met, as in Spark."""
    value = self.translate(node.this)
    pattern = node.expression
    if value.type != STRING:
        return None
    if not (isinstance(pattern, exp.Literal) and pattern.is_string):
        found = self.translate(pattern)
        if found.type != STRING:
            return None
        bad = rf"contains(regexp_replace({found.sql}, '\\[%_\\]', '', 'g'), '\')"
        why = f"error('the pattern of LIKE has a \\ that stands before none of %, _ and \\: ' || {found.sql})"
        return Final(f"({value.sql} LIKE CASE WHEN {bad} THEN {why} ELSE {found.sql} END ESCAPE '\\')", BOOLEAN)
    text = str(pattern.this)
    if "\0" in text or re.search(r"\\(?![%_\\])", re.sub(r"\\[%_\\]", "", text)):
        return None
    return Final(f"({value.sql} LIKE {_string(text)} ESCAPE '\\')", BOOLEAN)


def _position(self: _Translator, node: exp.Expr) -> Final | None:
    """LOCATE, INSTR and POSITION, without a position to begin at."""
    if {key for key, value in node.args.items() if value} != {"this", "substr"}:
        return None
    whole, part = self.all([node.this, node.args["substr"]])
    if whole.type != STRING or part.type != STRING:
        return None
    found = f"CAST(instr({whole.sql}, {part.sql}) AS INTEGER)"
    return Final(f"CASE WHEN {part.sql} = '' AND {whole.sql} IS NOT NULL THEN 1 ELSE {found} END", INT)


def _trim(self: _Translator, node: exp.Expr) -> Final | None:
    """TRIM, LTRIM and RTRIM of spaces; Spark trims no other white space."""
    if not {key for key, value in node.args.items() if value} <= {"this", "position"}:
        return None
    value, function = self.translate(node.this), _TRIMS.get(str(node.args.get("position") or "BOTH").upper())
    return Final(f"{function}({value.sql}, ' ')", STRING) if function and value.type == STRING else None


_TRIMS = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}


def _case(self: _Translator, node: exp.Expr) -> Final | None:
    subject = self.translate(node.this) if node.this is not None else None
    conditions: list[Final | None] = []
    for branch in node.args["ifs"]:
        condition = self.translate(branch.this)
        conditions.append(_compare("=", subject, condition) if subject is not None else condition)
    default = node.args.get("default")
    values = [self.translate(branch.args["true"]) for branch in node.args["ifs"]]
    values.append(self.translate(default) if default is not None else Final("NULL", VOID))
    type_ = common_type(values)
    casts = cast_all(values, type_) if type_ is not None else None
    if type_ is None or casts is None:
        return None
    parts = []
    for known, then in zip(conditions, casts[:-1], strict=True):
        if known is None or known.type not in (BOOLEAN, VOID):
            return None
        parts.append(f"WHEN {known.sql} THEN {then}")
    return Final(f"CASE {' '.join(parts)} ELSE {casts[-1]} END", type_)


def _if(self: _Translator, node: exp.Expr) -> Final | None:
    otherwise = node.args.get("false")
    return conditional(
        self.translate(node.this),
        self.translate(node.args["true"]),
        self.translate(otherwise) if otherwise is not None else Final("NULL", VOID),
    )


def _let(self: _Translator, node: exp.Expr) -> Final | None:
    value, alias = self.translate(node.this), str(node.args["alias"])
    body = _Translator({**self.types, alias: value.type}, self.text, self.whole).translate(node.expression)
    return Final(f"list_transform([{value.sql}], lambda {alias}: {body.sql})[1]", body.type)


def _cast(self: _Translator, node: exp.Expr) -> Final | None:
    target = spark_type(node.args["to"])
    if target is None:
        return None
    value = node.this
    if isinstance(value, exp.Literal) and value.is_string and (target.is_timestamp or target == DATE):
        return _time_literal(str(value.this), target)
    known = self.translate(value)
    sql = cast_sql(known, target)
    return Final(sql, target) if sql is not None else None


def spark_type(node: exp.Expr) -> SqlType | None:
    """The scalar type of a type node; None for any other type."""
    name = {
        "TEXT": "STRING",
        "TIMESTAMPTZ": "TIMESTAMP",
        "TIMESTAMPLTZ": "TIMESTAMP",
        "TIMESTAMPNTZ": "TIMESTAMP_NTZ",
    }
    plain = name.get(node.this.name, node.this.name)
    if plain == "DECIMAL":
        numbers = [int(parameter.this.name) for parameter in node.expressions] or [10]
        return decimal_type(numbers[0], numbers[1] if len(numbers) > 1 else 0)
    try:
        return SqlType(plain)
    except ValueError:
        return None


_OPERATORS: dict[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.Mod: "%",
    exp.IntDiv: "DIV",
    exp.Neg: "-",
    **COMPARISON_NODES,
    exp.NullSafeEQ: "<=>",
    exp.DPipe: "||",
    exp.RegexpLike: "RLIKE",
    exp.TryCast: "TRY_CAST",
}

_RULES: dict[type[exp.Expr], Callable[[_Translator, exp.Expr], Final | None]] = {
    exp.Column: _column,
    exp.Literal: _literal,
    exp.Boolean: lambda self, node: Final("TRUE" if node.this else "FALSE", BOOLEAN),
    exp.Null: lambda self, node: Final("NULL", VOID),
    exp.Paren: lambda self, node: self.translate(node.this),
    exp.Alias: lambda self, node: self.translate(node.this),
    exp.Neg: _negative,
    exp.Add: _sum("+"),
    exp.Sub: _sum("-"),
    exp.Mul: _arithmetic("*"),
    exp.Mod: _arithmetic("%"),
    exp.Div: _divide,
    exp.IntDiv: _integer_divide,
    **{node: _comparison(operator) for node, operator in COMPARISON_NODES.items()},
    exp.NullSafeEQ: _comparison("IS NOT DISTINCT FROM"),
    exp.NullSafeNEQ: _comparison("IS DISTINCT FROM"),
    exp.And: _logical("AND"),
    exp.Or: _logical("OR"),
    exp.Not: _not,
    exp.Is: _is,
    exp.Between: _between,
    exp.In: _in,
    exp.Like: _like,
    exp.StrPosition: _position,
    exp.Trim: _trim,
    exp.Case: _case,
    exp.If: _if,
    exp.Cast: _cast,
    Let: _let,
    MaxValueBytes: lambda self, node: Final("CAST(getvariable('max_value_bytes') AS BIGINT)", BIGINT),
    exp.DPipe: lambda self, node: concatenation([self.translate(node.this), self.translate(node.expression)]),
}
