"""Text to statements and back: the dialect, the window clause, the allow-list, the printer."""

from windrow.cql.dialect import CQL as CQL
from windrow.cql.dialect import StreamTable as StreamTable
from windrow.cql.dialect import window_of as window_of
from windrow.cql.final.sql import finalize as finalize
from windrow.cql.final.sql import to_duckdb as to_duckdb
from windrow.cql.functions import check_functions as check_functions
from windrow.cql.functions import is_aggregate as is_aggregate
from windrow.cql.intervals import format_interval as format_interval
from windrow.cql.intervals import parse_interval as parse_interval
from windrow.cql.parser import parse as parse
from windrow.cql.parser import parse_one as parse_one
from windrow.cql.printer import to_text as to_text
from windrow.cql.select_text import expression_text as expression_text
from windrow.cql.select_text import parse_expression as parse_expression
from windrow.cql.tokens import place_of as place_of
