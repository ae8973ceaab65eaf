"""Quote names and strings, so that their text reads back to the same value."""

from __future__ import annotations

import re

from sqlglot.dialects.spark import Spark

_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BARE_OPTION = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)*")

_KEYWORDS = frozenset(
    word.upper() for keyword in Spark.Tokenizer.KEYWORDS for word in keyword.split() if word.isalpha()
) | frozenset(
    "AS BY CREATE EMIT EXPIRE FROM IDLE INTERNAL INTO LATE NOW OFFSET ON OPTIONS ORIGIN PATTR PER PRIORITY "
    "PUNCTUATE RANGE RANK RATTR RETAIN ROW ROWS SATTR SEQUENCE SINCE SLACK SLIDE TICK UNBOUNDED WATTR".split()
)


def quote_name(name: str) -> str:
    """A name, back-quoted if it is a keyword or not plain."""
    if _BARE.fullmatch(name) and name.upper() not in _KEYWORDS:
        return name
    return "`" + name.replace("`", "``") + "`"


def quote_option(name: str) -> str:
    """The name of an option, setting, source or sink; dotted lower-case words need no quotes, even keywords."""
    if _BARE_OPTION.fullmatch(name):
        return name
    return "`" + name.replace("`", "``") + "`"


def quote_text(value: str) -> str:
    """A string literal of Spark SQL. Control characters are escaped, so that any tokenizer keeps them.

    The dollar of ${ is escaped too: Spark substitutes ${env:HOME} and the like anywhere in a text, also in strings.
    """
    text = "".join(_ESCAPES.get(char, char) for char in value)
    return "'" + text.replace("${", "\\044{") + "'"


_ESCAPES = {chr(code): f"\\{code:03o}" for code in [*range(32), 127]} | {
    "\n": "\\n",
    "\t": "\\t",
    "\r": "\\r",
    "\\": "\\\\",
    "'": "\\'",
}
