"""The dialect `CQL`: Spark SQL in which a table or sub-query in FROM may carry a window clause.

    FROM packets [RANGE 10 MINUTES SLIDE 1 MINUTE] AS p

Such a table is a `StreamTable` node: a table to all of sqlglot, with its `WindowClause` as an argument. So the clause
takes part in equality, survives `copy()` and `transform()`, and is printed. A sub-query with a window is a
`WindowedQuery` in the same way. ISTREAM(…), DSTREAM(…) and RSTREAM(…) around a select list are `RelationToStream`, also
with RESTORE, and so is WSTREAM(…) with the window behind it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, cast

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.generators.spark import SparkGenerator
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import TokenType

from windrow.cql.names import quote_text
from windrow.cql.tokens import Cursor, place_at
from windrow.cql.window_clause import WindowClause
from windrow.cql.window_syntax import parse_window, window_text
from windrow.errors import ParseError


class StreamTable(exp.Table):
    """A stream with its window: `exp.Table` with the argument `window`."""

    arg_types = {**exp.Table.arg_types, "window": False}


class WindowedQuery(exp.Subquery):
    """A sub-query in FROM with a window on its output: `exp.Subquery` with the argument `window`."""

    arg_types = {**exp.Subquery.arg_types, "window": False}


class RelationToStream(exp.Expression):
    """ISTREAM, DSTREAM, RSTREAM or WSTREAM (`this`) around the whole select list; WSTREAM also inside an aggregate.
    `restore`: RESTORE follows the word. `window`: the clause behind WSTREAM(…)."""

    arg_types = {"this": True, "expressions": False, "restore": False, "window": False}

    @property
    def words(self) -> str:
        """What the user wrote before the parenthesis."""
        return f"{self.this} RESTORE" if self.args.get("restore") else str(self.this)


class OwnAggregate(exp.Expression, exp.AggFunc):
    """A call of an aggregate that Spark SQL lacks or writes differently: its name and its arguments."""

    arg_types = {"this": True, "expressions": False}
    is_var_len_args = True


class Let(exp.Expression):
    """`expression` with the column `alias` standing for the value `this`, which is computed once."""

    arg_types = {"this": True, "alias": True, "expression": True}


class MaxValueBytes(exp.Expression):
    """The bound on the values that functions make, where DuckDB has it as a variable of the connection."""

    arg_types = {}


def _own(name: str) -> Callable[[list[exp.Expr]], exp.Expr]:
    return lambda args: OwnAggregate(this=name, expressions=args)


HOLISTIC = ("MEDIAN", "QUANTILE", "TOP_K", "FREQUENT_ITEMS")
TO_STREAM = ("ISTREAM", "DSTREAM", "RSTREAM", "WSTREAM")
APPROXIMATE = ("APPROX_COUNT_DISTINCT", "APPROX_QUANTILE", "APPROX_TOP_K")
OWN_AGGREGATES = (*HOLISTIC, *APPROXIMATE)


def window_of(table: exp.Expr) -> WindowClause | None:
    """The window clause of a table or sub-query, or behind WSTREAM(…); None if it has none."""
    window = table.args.get("window") if isinstance(table, (StreamTable, WindowedQuery, RelationToStream)) else None
    return window if isinstance(window, WindowClause) else None


_TYPED_FUNCTIONS = (
    # aggregates
    "SUM COUNT AVG MIN MAX VARIANCE VAR_SAMP VAR_POP STDDEV STDDEV_SAMP STDDEV_POP "
    # evaluated by FINAL expressions and by the oracle
    "ABS CEIL CEILING COALESCE CONCAT EXP FLOOR GREATEST IF IFNULL LEAST LENGTH LEN CHAR_LENGTH "
    "CHARACTER_LENGTH LN LOG LOWER LCASE MOD NULLIF NVL NVL2 POW POWER ROUND SIGN SIGNUM SQRT UPPER UCASE "
    # functions with an operator or special syntax of the same meaning, which may be printed instead
    "DIV SHIFTLEFT SHIFTRIGHT LIKE ILIKE RLIKE REGEXP_LIKE LOCATE INSTR LTRIM RTRIM"
).split()
_UNIT_FUNCTIONS = "TIMESTAMPADD TIMESTAMPDIFF DATEADD DATE_ADD DATEDIFF DATE_DIFF".split()
_FUNCTION_SYNTAX = "CAST TRY_CAST CEIL FLOOR EXTRACT OVERLAY POSITION SUBSTR SUBSTRING TRIM".split()


def _with_unit(name: str) -> Callable[[list[exp.Expr]], exp.Expr]:
    """Build `timestampadd(HOUR, 1, ts)`: the first of three arguments is a unit, not a column."""

    def build(args: list[exp.Expr]) -> exp.Expr:
        first = args[0] if len(args) == 3 else None
        if isinstance(first, exp.Column) and not first.table and not first.this.quoted:
            args = [exp.Var(this=first.name.upper()), *args[1:]]
        return exp.Anonymous(this=name, expressions=args)

    return build


def _to_stream(name: str) -> Callable[[Any], exp.Expr]:
    """Read the select list inside `ISTREAM(…)`, with aliases and stars."""

    def read(parser: Any) -> exp.Expr:
        word = parser._tokens[parser._index - 2]
        return RelationToStream(this=name, expressions=parser._parse_expressions()).update_positions(word)

    return read


class CqlParser(SparkParser):
    """Spark's parser with window clauses and with functions kept as written.

    sqlglot turns many functions into general nodes that print as other functions, with other results in some cases
    (`to_date(s, 'yyyy')` as `to_date(s)`). Here a function is `exp.Anonymous` under its own name, unless it is listed
    above. So Spark gets what the user wrote.
    """

    STRICT_CAST = True
    ADD_JOIN_ON_TRUE = False
    FUNCTIONS = {
        **{name: SparkParser.FUNCTIONS[name] for name in _TYPED_FUNCTIONS},
        **{name: _with_unit(name) for name in _UNIT_FUNCTIONS},
        # CURRENT_TIMESTAMP and the like, with and without parentheses, are one node; the allow-list refuses it
        **{token.name: node.from_arg_list for token, node in SparkParser.NO_PAREN_FUNCTIONS.items()},
        **{name: _own(name) for name in OWN_AGGREGATES},
        "MEAN": exp.Avg.from_arg_list,
        "STD": exp.Stddev.from_arg_list,
    }
    FUNCTION_PARSERS = {
        **{name: SparkParser.FUNCTION_PARSERS[name] for name in _FUNCTION_SYNTAX},
        **{name: _to_stream(name) for name in TO_STREAM},
    }
    NO_PAREN_FUNCTION_PARSERS = {name: SparkParser.NO_PAREN_FUNCTION_PARSERS[name] for name in ("CASE", "IF")}

    def _negate_range(self, this: Any = None) -> Any:
        # sqlglot keeps the NOT of NOT LIKE in an argument, which readers of the tree may miss.
        return self.expression(exp.Not(this=this)) if this else this

    def _parse_function(self, *args: Any, **more: Any) -> Any:
        if not self._is_restore():
            return super()._parse_function(*args, **more)
        word = self._curr
        self._advance(3)
        made = RelationToStream(this=word.text.upper(), expressions=self._parse_expressions(), restore=True)
        self._match_r_paren()
        return made.update_positions(word)

    def _parse_join(self, *args: Any, **more: Any) -> Any:
        word = self._curr
        made = super()._parse_join(*args, **more)
        if made is None or word.token_type == TokenType.COMMA or isinstance(made.this, (exp.Lateral, exp.Unnest)):
            return made
        if any(made.args.get(name) for name in ("on", "using", "method")) or made.args.get("kind") == "CROSS":
            return made
        if made.args.get("side") or made.args.get("kind") not in (None, "", "INNER"):
            raise ParseError(
                f"a {made.args.get('side') or made.args.get('kind')} JOIN needs a condition",
                place=place_at(self.sql, word.start, word.end + 1),
                remedy="Write ON a.k = b.k behind it, or USING (k). For every pair of rows write CROSS JOIN.",
            )
        made.set("kind", "INNER")  # sqlglot would print a comma, and read that as CROSS JOIN
        return made

    def _parse_column_parts_fast(self) -> Any:
        # sqlglot would take ISTREAM for a column that is called RESTORE.
        return None if self._is_restore() else super()._parse_column_parts_fast()

    def _is_restore(self) -> bool:
        """Whether `ISTREAM RESTORE (` or the like is next."""
        if self._curr.text.upper() not in TO_STREAM or self._next.text.upper() != "RESTORE":
            return False
        behind = self._tokens[self._index + 2 : self._index + 3]
        return bool(behind) and behind[0].token_type == TokenType.L_PAREN

    def _parse_bracket(self, this: Any = None) -> Any:
        if self._curr.token_type == TokenType.L_BRACKET:
            if type(this) is exp.Table:
                return StreamTable(**this.args, window=self._parse_stream_window())
            if isinstance(this, RelationToStream):
                this.set("window", self._parse_stream_window())
                return this
        return super()._parse_bracket(this)

    def _parse_subquery(self, this: Any, parse_alias: bool = True) -> Any:
        # With an alias to come it is a sub-query in FROM, not a value.
        if not (parse_alias and isinstance(this, exp.Query) and self._curr.token_type == TokenType.L_BRACKET):
            return super()._parse_subquery(this, parse_alias)
        window = self._parse_stream_window()
        query: Any = super()._parse_subquery(this, parse_alias)
        return WindowedQuery(**query.args, window=window)

    def _parse_stream_window(self) -> WindowClause:
        cursor = Cursor(self._tokens, self.sql, self._index)
        window = parse_window(cursor)
        self._advance(cursor.index - self._index)
        return window


def _windowed_sql(self: SparkGenerator, expression: exp.Expr, plain: Callable[[Any], str]) -> str:
    """A table or a sub-query as `plain` prints it, with its window before its alias."""
    window = window_of(expression)
    if window is None:
        return plain(expression)
    alias = self.sql(expression, "alias")
    unnamed = expression.copy()
    unnamed.set("alias", None)
    return f"{plain(unnamed)} {window_text(window)}{f' AS {alias}' if alias else ''}"


def _to_stream_sql(self: SparkGenerator, expression: RelationToStream) -> str:
    window = window_of(expression)
    listed = self.expressions(expression, flat=True)
    return f"{expression.words}({listed}){'' if window is None else window_text(window)}"


class CqlGenerator(SparkGenerator):
    TRANSFORMS = {
        **SparkGenerator.TRANSFORMS,
        StreamTable: lambda self, node: _windowed_sql(self, node, self.table_sql),
        WindowedQuery: lambda self, node: _windowed_sql(self, node, self.subquery_sql),
        RelationToStream: _to_stream_sql,
        OwnAggregate: lambda self, node: self.func(node.this, *node.expressions),
        Let: lambda self, node: (
            f"transform(array({self.sql(node.this)}), {node.args['alias']} -> {self.sql(node.expression)})[0]"
        ),
    }

    def literal_sql(self, expression: exp.Literal) -> str:
        # sqlglot's escape of NUL merges with digits that follow it.
        return quote_text(expression.this) if expression.is_string else cast(str, expression.this)


class CQL(Spark):
    class Tokenizer(Spark.Tokenizer):
        # Spark 4 reads a doubled quote as one quote; sqlglot's Spark dialect still joins two strings.
        STRING_ESCAPES = ["\\", "'", '"']
        # Drop the nested types of other dialects: `range < 7` is not a type.
        KEYWORDS = {
            word: token
            for word, token in Spark.Tokenizer.KEYWORDS.items()
            if token not in SparkParser.NESTED_TYPE_TOKENS or word in ("ARRAY", "MAP", "STRUCT", "UNION")
        }
        # EXPLAIN, SHOW and the like are our own statements; sqlglot must not read their rest as one string.
        COMMANDS: ClassVar[set[TokenType]] = set()

    Parser = CqlParser
    Generator = CqlGenerator
