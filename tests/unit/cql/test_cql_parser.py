"""Parsing statements, and the places of errors."""

from __future__ import annotations

import pytest
from sqlglot import exp

from windrow.cql import CQL, expression_text, parse, parse_one, place_of, to_text, window_of
from windrow.cql.printer import to_script
from windrow.cql.statements import (
    Alteration,
    AlterQuery,
    ColumnDef,
    CreateDerivedStream,
    CreateQuery,
    CreateStream,
    Describe,
    Drop,
    Emit,
    Explain,
    Late,
    Policy,
    Punctuate,
    Select,
    SetSetting,
    Show,
    SinkClause,
)
from windrow.cql.tokens import named_place
from windrow.cql.window_clause import Measure, Unit, WindowKind
from windrow.errors import ParseError, UnsupportedError, WindrowError


def seconds(count: int) -> Measure:
    return Measure(count * 1_000_000, Unit.TIME)


def test_create_stream_with_every_clause() -> None:
    statement = parse_one(
        """
        CREATE STREAM IF NOT EXISTS packets (ts TIMESTAMP, src STRING, `a b` numeric(10, 2), seq LONG)
          LATE REVISE FOR 1 HOUR
          FROM Files OPTIONS (path 'in''s', maxFilesPerTrigger 1, header true, kafka.x = "y", `Ab` '-')
          TIMESTAMP BY ts SEQUENCE BY seq TICK 2 SECONDS
          PUNCTUATE WITH SLACK 5 SECONDS
          PUNCTUATE ON seq ORDERED
          PUNCTUATE ON n WITH SLACK 100 ROWS
          PUNCTUATE PER src IDLE AFTER 1 MINUTE HEARTBEAT AFTER 500 MS
          PUNCTUATE BY SOURCE
          RETAIN 1 HOUR
        """
    )
    assert statement == CreateStream(
        name="packets",
        columns=(
            ColumnDef("ts", "TIMESTAMP"),
            ColumnDef("src", "STRING"),
            ColumnDef("a b", "DECIMAL(10,2)"),
            ColumnDef("seq", "BIGINT"),
        ),
        source="files",
        options=(("path", "in's"), ("maxfilespertrigger", "1"), ("header", "true"), ("kafka.x", "y"), ("Ab", "-")),
        timestamp_by="ts",
        sequence_by="seq",
        tick=seconds(2),
        punctuate=(
            Punctuate(Policy.SLACK, slack=seconds(5)),
            Punctuate(Policy.ORDERED, "seq"),
            Punctuate(Policy.SLACK, "n", slack=Measure(100, Unit.ROWS)),
            Punctuate(Policy.PER_KEY, key="src", idle_after=seconds(60), heartbeat=Measure(500_000, Unit.TIME)),
            Punctuate(Policy.BY_SOURCE),
        ),
        late=Late.REVISE,
        late_for=seconds(3600),
        retain=seconds(3600),
        if_not_exists=True,
    )


@pytest.mark.parametrize(
    ("written", "type_"),
    [
        ("bool", "BOOLEAN"),
        ("BYTE", "TINYINT"),
        ("short", "SMALLINT"),
        ("Integer", "INT"),
        ("real", "FLOAT"),
        ("double precision", "DOUBLE"),
        ("decimal", "DECIMAL(10,0)"),
        ("dec(5)", "DECIMAL(5,0)"),
        ("varchar(20)", "STRING"),
        ("char(3)", "STRING"),
        ("text", "STRING"),
        ("timestamp_ltz", "TIMESTAMP"),
        ("TIMESTAMP_NTZ", "TIMESTAMP_NTZ"),
        ("date", "DATE"),
        ("binary", "BINARY"),
    ],
)
def test_column_types(written: str, type_: str) -> None:
    statement = parse_one(f"CREATE STREAM s (a {written}) FROM memory")
    assert isinstance(statement, CreateStream)
    assert statement.columns == (ColumnDef("a", type_),)


def test_columns_that_may_be_missing() -> None:
    statement = parse_one("CREATE STREAM s (a INT NULLABLE MISSING, missing INT, nullable INT) FROM files")
    assert isinstance(statement, CreateStream)
    assert [column.may_miss for column in statement.columns] == [True, False, False]
    with pytest.raises(ParseError, match="MISSING"):
        parse_one("CREATE STREAM s (a INT NULLABLE) FROM files")


OWN_WORDS = (
    "tick late range slide rows path format emit priority expire into_ retain punctuate slack since now unbounded "
    "list object internal stream query options window_start timestamp date row first last key value origin "
    "latest every source per idle wattr rank settings show set describe explain order group user any transform"
).split()


@pytest.mark.parametrize("word", OWN_WORDS)
def test_keywords_as_column_names(word: str) -> None:
    stream = parse_one(
        f"CREATE STREAM s ({word} INT, x INT) FROM memory TIMESTAMP BY {word} PUNCTUATE ON {word} ORDERED"
    )
    assert isinstance(stream, CreateStream)
    assert stream.columns[0].name == stream.timestamp_by == stream.punctuate[0].column == word
    query = parse_one(
        f"CREATE QUERY q AS SELECT {word}, MAX({word}) + 1 AS {word}, s.{word} AS y "
        f"FROM s [RANGE 5 SLIDE 1 WATTR {word}] WHERE {word} > 1 "
        f"GROUP BY {word}, x HAVING {word} < 7 ORDER BY x, {word} EMIT LATEST PRIORITY 3"
    )
    assert isinstance(query, CreateQuery)
    assert query.emit is Emit.LATEST and query.priority == 3
    assert {column.name for column in query.select.find_all(exp.Column)} == {word, "x"}


def test_create_query_with_every_clause() -> None:
    statement = parse_one(
        "CREATE QUERY IF NOT EXISTS q AS SELECT a FROM s [RANGE 5 SECONDS SLIDE 1 SECOND] "
        "PRIORITY -2 EXPIRE AFTER 1 DAY INTO Parquet OPTIONS (path 'x') EMIT EVERY WINDOW"
    )
    assert isinstance(statement, CreateQuery)
    assert expression_text(statement.select) == "SELECT a FROM s [RANGE 5 SECONDS SLIDE 1 SECOND]"
    assert statement.sink == SinkClause("parquet", (("path", "x"),))
    assert (statement.emit, statement.priority, statement.expire_after) == (Emit.EVERY_WINDOW, -2, seconds(86_400))
    assert statement.if_not_exists


def test_tail_keywords_as_names() -> None:
    statement = parse_one(
        "CREATE QUERY q AS SELECT emit latest, SUM(priority - 1) AS into_ FROM s priority "
        "WHERE priority - 1 > 2 AND expire = 3 GROUP BY emit HAVING priority -1 > 0 ORDER BY priority EMIT LATEST"
    )
    assert isinstance(statement, CreateQuery)
    assert statement.emit is Emit.LATEST and statement.priority is None
    assert "ORDER BY priority" in expression_text(statement.select)


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("SHOW streams", Show("streams")),
        ("SHOW QUERIES", Show("queries")),
        ("SHOW SHARING", Show("sharing")),
        ("SHOW TABLES", Show("tables")),
        ("SHOW SETTINGS;", Show("settings")),
        ("SHOW LATENESS packets", Show("lateness", "packets")),
        ("DESCRIBE packets", Describe("packets")),
        ("DESC `my stream`", Describe("my stream")),
        ("DROP STREAM s", Drop("stream", "s")),
        ("DROP QUERY IF EXISTS q", Drop("query", "q", if_exists=True)),
        ("DROP TABLE t", Drop("table", "t")),
        ("EXPLAIN QUERY q", Explain(name="q")),
        ("EXPLAIN ANALYZE QUERY q", Explain(name="q", analyze=True)),
        ("EXPLAIN STREAM s", Explain(name="s", is_stream=True)),
        ("EXPLAIN VERBOSE QUERY q", Explain(name="q", verbose=True)),
        ("EXPLAIN ANALYZE VERBOSE QUERY q", Explain(name="q", analyze=True, verbose=True)),
        ("EXPLAIN VERBOSE STREAM s", Explain(name="s", is_stream=True, verbose=True)),
        ("EXPLAIN ANALYZE STREAM s", Explain(name="s", analyze=True, is_stream=True)),
        ("SET max_future = 'off'", SetSetting("max_future", "off")),
        ("SET Max_Future = 1 DAY", SetSetting("max_future", "1 DAY")),
        ("SET x = -0.5", SetSetting("x", "-0.5")),
        ("SET x = a-b /* no */ c", SetSetting("x", "a-b c")),
        ("SET spark.x = 10s", SetSetting("spark.x", "10s")),
    ],
)
def test_short_statements(text: str, statement: object) -> None:
    assert parse_one(text) == statement


def test_explain() -> None:
    select = parse_one("EXPLAIN SELECT a FROM s [NOW]")
    create = parse_one("EXPLAIN CREATE QUERY q AS SELECT a FROM s [NOW] EMIT LATEST")
    assert isinstance(select, Explain) and isinstance(select.statement, Select)
    assert isinstance(create, Explain) and isinstance(create.statement, CreateQuery)
    assert create.statement.emit is Emit.LATEST


def test_script() -> None:
    statements = parse("-- first\nSHOW STREAMS; ;\n/* ; */ SET x = ';' ;SELECT ';' AS a FROM s -- end ;")
    assert [type(statement) for statement in statements] == [Show, SetSetting, Select]
    assert parse(" ;; -- nothing") == []
    with pytest.raises(ParseError, match="there are 2"):
        parse_one("SHOW STREAMS; SHOW STREAMS")
    with pytest.raises(ParseError, match="there is none"):
        parse_one("--")


def test_comments_are_ignored() -> None:
    plain = parse_one("SELECT SUM(a) FROM s")
    assert parse_one("SELECT SUM(a /* x */) /* sqlglot.anonymous */ FROM s /* sqlglot.meta a=1 */") == plain
    assert to_text(parse_one("SELECT /* c */ a FROM s -- d")) == "SELECT a FROM s"


ERRORS = [
    ("SELEKT 1", 1, 1, "Did you mean SELECT?"),
    ("CREATE STREEM s", 1, 8, "Did you mean STREAM?"),
    ("SHOW\n  STREEMS", 2, 3, "Did you mean STREAMS?"),
    ("CREATE STREAM s (a INT, A STRING) FROM memory", 1, 25, "given twice"),
    ("CREATE STREAM s (a INTT) FROM memory", 1, 20, "Did you mean INT?"),
    ("CREATE STREAM s (a ARRAY<INT>) FROM memory", 1, 20, "Column types are BOOLEAN"),
    ("CREATE STREAM s (a MAP<INT, INT>) FROM memory", 1, 20, "Column types are BOOLEAN"),
    ("CREATE STREAM s (a DECIMAL(39,0)) FROM memory", 1, 20, "precision from 1 to 38"),
    ("CREATE STREAM s (a DECIMAL(5,6)) FROM memory", 1, 20, "precision from 1 to 38"),
    ("CREATE STREAM s (a INT(5)) FROM memory", 1, 20, "takes no parameters"),
    ("CREATE STREAM s (a INT PRIMARY KEY) FROM memory", 1, 24, "expected"),
    ("CREATE STREAM s (a INT)", 1, 24, "has no source"),
    ("CREATE STREAM s (a INT) FROM memory TICK 0 SECONDS", 1, 42, "greater than zero"),
    ("CREATE STREAM s FROM memory PUNCTUATE ORDERED HEARTBEAT AFTER 0 SECONDS", 1, 63, "greater than zero"),
    ("CREATE STREAM s FROM memory PUNCTUATE ORDERED HEARTBEAT AFTER -1 SECOND", 1, 63, "not negative"),
    ("CREATE STREAM s FROM memory PUNCTUATE ORDERED HEARTBEAT AFTER 1 MONTH", 1, 63, "no fixed length"),
    ("CREATE STREAM s FROM memory PUNCTUATE BY SOURCE HEARTBEAT AFTER 30", 1, 65, "a length of time"),
    ("CREATE STREAM s FROM memory PUNCTUATE WITH SLACK 5 HEARTBEAT 30 SECONDS", 1, 62, "AFTER"),
    ("CREATE STREAM s (a INT) FROM memory LATE DORP", 1, 42, "Did you mean DROP?"),
    ("CREATE STREAM s (a INT) FROM memory TICK 1 SECOND TICK 1 SECOND", 1, 51, "given twice"),
    ("CREATE STREAM s (a INT) FROM memory FROM memory", 1, 37, "given twice"),
    ("CREATE STREAM s (a INT) FROM memory PUNCTATE ORDERED", 1, 37, "Did you mean PUNCTUATE?"),
    ("CREATE STREAM s (a INT) FROM memory OPTIONS (a '1', A '2')", 1, 53, "given twice"),
    ("CREATE STREAM s (a INT) FROM memory OPTIONS (a b)", 1, 48, "a quoted value"),
    ("CREATE STREAM a.b (a INT) FROM memory", 1, 16, "one part"),
    ("CREATE QUERY q AS SELECT a FROM s GRUOP BY a", 1, 41, "Did you mean GROUP?"),
    ("CREATE QUERY q AS SELECT a FROM s GROUP BY a EMITT LATEST", 1, 46, "Did you mean EMIT?"),
    ("CREATE QUERY q AS SELECT a FROM s EMIT LATEST EMIT LATEST", 1, 47, "given twice"),
    ("CREATE QUERY q AS SELECT a FROM s PRIORITY 1.5", 1, 44, "PRIORITY is an integer"),
    ("CREATE QUERY q AS SELECT a FROM s EXPIRE AFTER 5", 1, 48, "length of time"),
    ("CREATE QUERY q AS SHOW STREAMS", 1, 19, "expected SELECT"),
    ("SELECT a FROM s EMIT LATEST", 1, 17, "CREATE QUERY name AS"),
    ("SELECT a +\nFROM s", 2, 1, "something is missing"),
    ("SELECT a b c FROM s", 1, 12, "did not expect 'c'"),
    ("SELECT (a FROM s", 1, 8, "'(' is not closed"),
    ("SELECT a) FROM s", 1, 9, "closes nothing"),
    ("SELECT FROM s", 1, 1, "select list is empty"),
    ("SELECT a, FROM s", 1, 9, "Leave it out"),
    ("SELECT f(a, ) FROM s", 1, 11, "a comma stands before ')'"),
    ("SELECT a FROM s GROUP BY a,", 1, 27, "a comma stands before the end"),
    ("SELECT a FROM s [NOW] LEFT JOIN t [NOW] WHERE s.k < t.k", 1, 23, "write CROSS JOIN"),
    ("SELECT a FROM s [NOW] LEFT JOIN t [NOW] WHERE a = 1", 1, 23, "a LEFT JOIN needs a condition"),
    ("SELECT a FROM s (RANGE 1 MINUTE) AS o", 1, 17, "Write [RANGE 1 …] behind the stream's name"),
    ("SELECT a FROM s (ROWS 5)", 1, 17, "in brackets, not in parentheses"),
    ("CREATE QUERY select AS SELECT a FROM s", 1, 14, "Write it in back quotes, `select`"),
    ("CREATE TABLE from (a INT PRIMARY KEY)", 1, 14, "is a keyword"),
    ("SELECT 'abc", 1, 8, "a string is not closed"),
    ("SELECT `abc", 1, 8, "a quoted name is not closed"),
    ("SELECT 1 /* x", 1, 10, "a comment is not closed"),
    ("SELECT /*+ BROADCAST(s) */ a FROM s", 1, 8, "hints"),
    ("EXPLAIN SHOW STREAMS", 1, 9, "expected SELECT, CREATE QUERY, QUERY, STREAM, ANALYZE QUERY or VERBOSE"),
    ("EXPLAIN ANALYZE SELECT a FROM s [NOW]", 1, 17, "expected QUERY"),
    ("EXPLAIN CREATE STREAM s (a INT) FROM memory", 1, 9, "explains queries"),
    ("DROP VIEW v", 1, 6, "STREAM, QUERY or TABLE"),
    ("SET x", 1, 6, "'='"),
    ("SET x =", 1, 8, "a value"),
    ("SET x = 'a' 'b'", 1, 9, "one quoted string"),
    ("SHOW STREAMS NOW", 1, 14, "end of the statement"),
    ("SELECT \ud800", 1, 8, "surrogate"),
    ("ALTER STREAM s PAUSE", 1, 7, "Only queries can be altered"),
    ("ALTER QUERY q STOP", 1, 15, "PAUSE or RESUME"),
    ("CREATE OR REPLACE QUERY IF NOT EXISTS q AS SELECT a FROM s", 1, 25, "contradict each other"),
    ("CREATE OR DROP QUERY q AS SELECT a FROM s", 1, 11, "REPLACE"),
    ("hello", 1, 1, "A statement begins with CREATE, ALTER, SELECT"),
    ("CREATE QUERY q SELECT 1", 1, 16, "Write CREATE QUERY name AS SELECT"),
    ("CREATE STREAM s (a INT, A STRING) FROM memory", 1, 25, "another name"),
    ("CREATE STREAM s (a INT) FROM memory PUNCTUATE WITH SLACK -5 SECONDS", 1, 58, "For example SLACK 10 SECONDS."),
    ("CREATE STREAM s (a INT) FROM memory TICK 0 ms", 1, 42, "For example TICK 10 MS."),
    ("SELECT a FROM s [RANGE 5", 1, 17, "Write ] where the window ends"),
    ("SELECT (a FROM s", 1, 8, "Write ) where it ends."),
    ("SELECT a AS `${env:HOME}` FROM s", 1, 13, "a name cannot contain ${"),
]


@pytest.mark.parametrize(("text", "line", "column", "says"), ERRORS, ids=[repr(error[0])[:60] for error in ERRORS])
def test_errors(text: str, line: int, column: int, says: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_one(text)
    error = caught.value
    assert says in str(error)
    assert error.place is not None and (error.place.line, error.place.column) == (line, column)
    assert "sqlglot" not in str(error) and "\x1b" not in str(error)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("UPSERT INTO t VALUES (1)", "UPSERT is not a statement"),
        ("UPDATE t SET a = (SELECT 1)", "a sub-query cannot stand here"),
        ("ISTREAM(SELECT a FROM s)", "ISTREAM is written around a select list"),
        ("CREATE QUERY q AS SELECT a FROM (WITH x AS (SELECT 1) SELECT * FROM x)", "cannot be kept as written"),
    ],
)
def test_unsupported(text: str, says: str) -> None:
    with pytest.raises(UnsupportedError, match=says) as caught:
        parse_one(text)
    assert caught.value.place is not None and caught.value.remedy


def test_places_in_a_script() -> None:
    script = "SHOW STREAMS;\n\nSELECT a,\n\tb FROM s [RANGE 5 MINTES];\nSHOW QUERIES"
    with pytest.raises(WindrowError) as caught:
        parse(script)
    assert caught.value.place is not None
    assert caught.value.place.line == 4
    assert caught.value.place.caret() == "   4 | \tb FROM s [RANGE 5 MINTES];\n     | \t                ^^^^^^^^"


STREAM = "CREATE STREAM s (ts TIMESTAMP, x INT) FROM memory TIMESTAMP BY ts PUNCTUATE WITH SLACK 5 LATE REVISE"


@pytest.mark.parametrize(
    ("message", "column", "length"),
    [
        ("'ts' is not what it should be", 64, 2),
        ("SLACK '5' does not fit ts", 88, 1),
        ("'SLACK 5' does not fit", 82, 7),
        ("this version does not have LATE REVISE yet", 90, 11),
        ("TIMESTAMP BY is not what it should be", 51, 12),
        ("'nothing' of the kind is in the PUNCTUATE clause", 67, 9),
    ],
)
def test_named_place(message: str, column: int, length: int) -> None:
    place = named_place(message, STREAM, CQL())
    assert place is not None and (place.line, place.column, place.length) == (1, column, length)


def test_place_of_a_name_that_is_taken() -> None:
    text = "CREATE STREAM hay AS SELECT ISTREAM(id) FROM o [NOW] WHERE item = 'hay';\nCREATE QUERY n AS SELECT id FROM hay [NOW]"
    place = named_place("stream 'hay' exists already", text, CQL())
    assert place is not None and (place.line, place.column, place.length) == (1, 15, 3)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ("there is no stream 'nope'", STREAM),
        ("one-time queries read dead_letters('stream')", STREAM),
        ("there is nothing to find", STREAM),
        ("'s' is written in two statements", "DROP QUERY s; DROP STREAM s"),
    ],
)
def test_no_named_place(message: str, text: str) -> None:
    assert named_place(message, text, CQL()) is None


def test_place_of_nodes() -> None:
    script = "SHOW STREAMS;\nSELECT total + 1 AS x,\n  upper(name) FROM s"
    select = parse(script)[1]
    assert isinstance(select, Select)
    total = next(column for column in select.select.find_all(exp.Column) if column.name == "total")
    function = select.select.find(exp.Upper)
    plus = select.select.find(exp.Add)
    assert function is not None and plus is not None
    places = [place_of(node, script) for node in (total, function, plus)]
    assert [(p.line, p.column, p.length) for p in places if p is not None] == [(2, 8, 5), (3, 3, 5), (2, 8, 9)]
    assert place_of(total.copy(), script) == places[0]
    assert place_of(exp.column("made_up"), script) is None


@pytest.mark.parametrize(
    "bomb",
    [
        "SELECT " + "(" * 5000 + "a" + ")" * 5000 + " FROM s",
        "SELECT " + "abs(" * 300 + "a" + ")" * 300 + " FROM s",
        "SELECT " + "CASE WHEN " * 500 + "a" + " THEN 1 END" * 500 + " FROM s",
        "SELECT " + "NOT " * 5000 + "a FROM s",
        "SELECT " + "- " * 5000 + "a FROM s",
        "SELECT a" + ".b" * 3000 + " FROM s",
        "SELECT a" + "[1]" * 3000 + " FROM s",
        "SELECT " + " + ".join(["a"] * 5000) + " FROM s",
        "SELECT " + " AND ".join(["a"] * 5000) + " FROM s",
        "SELECT a FROM " + "(SELECT a FROM " * 200 + "s" + ")" * 200,
        "SELECT " + "CAST(" * 200 + "a" + " AS INT)" * 200 + " FROM s",
        "SELECT a IN (" + ",".join(["1"] * 60_000) + ") FROM s",
    ],
    ids=lambda bomb: bomb[:24],
)
def test_deep_nesting(bomb: str) -> None:
    with pytest.raises(ParseError, match="nested too deeply|too long"):
        parse(bomb)


def test_join_with_its_condition_in_where() -> None:
    written = "CREATE QUERY q AS SELECT a FROM s [NOW] {}JOIN t [NOW] WHERE s.k < t.k"
    assert to_text(parse_one(written.format(""))) == written.format("INNER ")


def test_long_flat_query() -> None:
    statement = parse_one(
        "SELECT a IN (" + ",".join(map(str, range(5_000))) + ") AS x, " + "a + " * 100 + "1 AS y FROM s"
    )
    assert parse_one(to_text(statement)) == statement


@pytest.mark.parametrize(
    "query",
    [
        "SELECT * FROM s [RANGE 1 MINUTE]",
        "SELECT x.*, t.b FROM s [NOW] AS x JOIN t [UNBOUNDED] ON x.k = t.k WHERE x.a > t.b",
        "SELECT a FROM s [NOW] JOIN t [NOW] USING (k, ts)",
        "SELECT a FROM s [NOW] CROSS JOIN t [NOW]",
        "SELECT a FROM s [NOW] INNER JOIN t [NOW] WHERE s.k < t.k",
        "SELECT a FROM s [NOW] INNER JOIN t [NOW]",
        "SELECT a FROM (SELECT a FROM s [NOW]) AS x",
        "SELECT a FROM (SELECT a FROM s [UNBOUNDED]) [RANGE 1 MINUTE INTERNAL] AS x",
        "SELECT a FROM (SELECT a FROM s [UNBOUNDED]) [NOW]",
        "SELECT a FROM (SELECT a FROM s [NOW] UNION ALL SELECT b FROM t [NOW]) AS x",
        "SELECT a FROM s [NOW] JOIN (SELECT b FROM t [UNBOUNDED]) [NOW] AS y ON a = b",
        "WITH x AS (SELECT a FROM s [NOW]) SELECT a FROM x",
        "WITH x AS (SELECT a FROM s [UNBOUNDED]), y AS (SELECT a FROM x) SELECT a FROM y [RANGE 1 MINUTE] AS z",
        "SELECT DISTINCT a FROM s [NOW] ORDER BY a LIMIT 3",
        "SELECT a FROM s [NOW] UNION ALL SELECT b FROM t [NOW] ORDER BY a LIMIT 3",
        "SELECT a FROM s [NOW] UNION SELECT b FROM t [NOW]",
        "SELECT ISTREAM(*) FROM s [NOW]",
        "SELECT DSTREAM(a AS x, s.*) FROM s [NOW]",
        "SELECT DISTINCT RSTREAM(a) FROM s [NOW]",
        "SELECT a FROM (SELECT ISTREAM(a) FROM s [NOW]) [RANGE 1 MINUTE] AS x",
    ],
)
def test_continuous_queries(query: str) -> None:
    """They are printed as they were written, and read again."""
    statement = parse_one(f"CREATE QUERY q AS {query} INTO console")
    assert to_text(statement) == f"CREATE QUERY q AS {query} INTO console"
    assert parse_one(to_text(statement)) == statement
    derived = parse_one(f"CREATE STREAM IF NOT EXISTS d AS {query}")
    assert isinstance(derived, CreateDerivedStream)
    assert derived == CreateDerivedStream("d", derived.select, if_not_exists=True)
    assert parse_one(to_text(derived)) == derived and parse_one(to_script(derived)[:-1]) == derived


def test_comma_is_a_cross_join() -> None:
    assert parse_one("SELECT a FROM s [NOW], t [NOW]") == parse_one("SELECT a FROM s [NOW] CROSS JOIN t [NOW]")


def test_windows_of_sub_queries() -> None:
    statement = parse_one("SELECT a FROM (SELECT a FROM s [UNBOUNDED]) [RANGE 1 MINUTE] AS x")
    assert isinstance(statement, Select)
    window = window_of(statement.select.args["from_"].this)
    assert window is not None and window.kind is WindowKind.RANGE
    assert window.place is not None and (window.place.column, window.place.length) == (45, 16)


def test_tick_of_a_derived_stream() -> None:
    statement = parse_one("CREATE STREAM d AS SELECT a FROM s [NOW] TICK 5 SECONDS")
    assert isinstance(statement, CreateDerivedStream)
    assert statement.tick == Measure(5_000_000, Unit.TIME)
    assert to_text(statement) == "CREATE STREAM d AS SELECT a FROM s [NOW] TICK 5 SECONDS"
    named = parse_one("CREATE STREAM d AS SELECT tick.a FROM s [NOW] tick")
    assert isinstance(named, CreateDerivedStream) and named.tick is None


@pytest.mark.parametrize(
    ("text", "column", "says"),
    [
        ("CREATE STREAM d AS", 19, "expected SELECT"),
        ("CREATE STREAM d AS FROM memory", 20, "expected SELECT"),
        ("CREATE STREAM d AS SELECT a FROM s [NOW] TICK 0 SECONDS", 47, "TICK is greater than zero"),
        ("CREATE STREAM d AS SELECT a FROM s [NOW] TICK 5 SECONDS INTO console", 57, "the end of the statement"),
        ("CREATE QUERY q AS (SELECT a FROM s) UNION ALL SELECT a FROM t", 19, "expected SELECT"),
        ("SELECT a FROM (SELECT a FROM s) [RANGE 5 MINTES]", 40, "is not a unit"),
        ("SELECT a FROM s AS x [NOW]", 22, "a window clause is not expected here"),
    ],
)
def test_errors_in_continuous_queries(text: str, column: int, says: str) -> None:
    with pytest.raises(ParseError, match=says) as caught:
        parse_one(text)
    assert caught.value.place is not None and caught.value.place.column == column


def test_replace_and_alter() -> None:
    statement = parse_one("CREATE OR REPLACE QUERY q AS SELECT a FROM s [RANGE 5 SECONDS]")
    assert isinstance(statement, CreateQuery) and statement.or_replace and parse_one(to_text(statement)) == statement
    for alteration in Alteration:
        altered = parse_one(f"alter query `q r` {alteration.value}")
        assert altered == AlterQuery("q r", alteration) and parse_one(to_text(altered)) == altered
    with pytest.raises(UnsupportedError, match="only a query can be replaced"):
        parse_one("CREATE OR REPLACE TABLE t (k INT PRIMARY KEY)")
