"""Sizes that are known from the text of a statement: a call that is too large whatever the data is refused."""

from __future__ import annotations

from sqlglot import exp

from windrow.cql.bounds.sizes import CONVERSION, arguments_of, bounded_name, is_inner
from windrow.cql.tokens import place_of
from windrow.errors import BindError

MAX_NESTED = 12
_DIGITS = 12
"""A longer whole number counts as one of that many digits."""


def check_sizes(tree: exp.Expr, text: str, most: int) -> None:
    """Raise BindError for the first call whose result is always larger than `most` bytes."""
    for node in tree.find_all(exp.Anonymous, exp.Concat, exp.DPipe, exp.Overlay):
        if is_inner(node) or bounded_name(node) is None:
            continue
        if _nesting(node, most) > MAX_NESTED:
            raise BindError(
                f"more than {MAX_NESTED} functions that may lengthen a text stand inside each other",
                place=place_of(node, text),
                remedy="Write fewer of them, or prepare the text in the source of the stream.",
            )
        size = least_size(node, most)
        if size > most:
            raise BindError(
                f"{bounded_name(node)} makes a value of {size:,} bytes or more here, and at most {most:,} are allowed",
                place=place_of(node, text),
                remedy="Make it shorter, or raise the setting max_value_bytes.",
            )


def _nesting(node: exp.Expr, most: int) -> int:
    """How many bounded calls there are at a node and around it."""
    count = 0
    at: exp.Expr | None = node
    while at is not None:
        count += not is_inner(at) and bounded_name(at) is not None and not never_grows(at, most)
        at = at.parent
    return count


def least_size(node: exp.Expr, most: int) -> int:
    """The fewest bytes that the result of an expression can have, if it is not NULL or empty."""
    known = constant_text(node, most)
    if known is not None:
        return len(known.encode())
    name = bounded_name(node)
    if name is None:
        return least_size(node.this, most) if isinstance(node, exp.Paren) else 0
    args = arguments_of(node)
    if name in ("SPACE", "LPAD", "RPAD", "FORMAT_NUMBER"):
        return constant_number(args[0 if name == "SPACE" else 1]) or 0
    if name == "REPEAT":
        return max(least_size(args[0], most), 1) * max(constant_number(args[1]) or 0, 0)
    if name in ("CONCAT", "CONCAT_WS"):
        return sum(least_size(argument, most) for argument in args[name == "CONCAT_WS" :])
    if name == "REPLACE":
        texts = [constant_text(argument, most) for argument in args[:3]]
        text, old, new = (b"" if part is None else part.encode() for part in texts)
        return len(text) + text.count(old) * (len(new) - len(old)) if text and old and new else 0
    if name == "HEX":
        return 2 * least_size(args[0], most)
    if name in ("FORMAT_STRING", "PRINTF") and isinstance(args[0], exp.Literal):
        return _least_width(args[0].name)
    return 0


def _least_width(form: str) -> int:
    """The sum of the widths in a format; a precision is a width only for numbers."""
    total = 0
    for width, precision, kind in CONVERSION.findall(form):
        total += max(int(width[:_DIGITS] or 0), int(precision[:_DIGITS] or 0) if kind in tuple("fFeE") else 0)
    return total


def never_grows(node: exp.Expr, most: int) -> bool:
    """Whether the text of a bounded call shows that it needs no guard: its result has at most `most` bytes, or is no
    longer than its first argument."""
    if constant_text(node, most) is not None:
        return True
    name, args = bounded_name(node), arguments_of(node)
    if name in ("SPACE", "LPAD", "RPAD", "FORMAT_NUMBER"):
        count = constant_number(args[0 if name == "SPACE" else 1])
        return count is not None and count <= most
    if name == "REPEAT":
        count = constant_number(args[1])
        return count is not None and count <= 1
    if name == "REPLACE":
        old, new = (argument.name if argument.is_string else None for argument in args[1:3])
        return old is not None and new is not None and len(new.encode()) <= len(old.encode())
    return False


def constant_number(node: exp.Expr) -> int | None:
    """The value of a constant whole number; None for anything else."""
    if isinstance(node, exp.Paren | exp.Cast):
        return constant_number(node.this)
    if isinstance(node, exp.Neg):
        inner = constant_number(node.this)
        return None if inner is None else -inner
    if isinstance(node, exp.Literal):
        digits = node.name.rstrip("lLsSyY")
        return int(digits[:_DIGITS]) if digits.isascii() and digits.isdigit() else None
    if isinstance(node, exp.Add | exp.Sub | exp.Mul):
        left, right = constant_number(node.this), constant_number(node.expression)
        if left is None or right is None:
            return None
        return left * right if isinstance(node, exp.Mul) else left + right * (1 if isinstance(node, exp.Add) else -1)
    return None


def constant_text(node: exp.Expr, most: int) -> str | None:
    """The value of a constant text of at most `most` characters; None for anything else."""
    if isinstance(node, exp.Paren):
        return constant_text(node.this, most)
    if isinstance(node, exp.Literal):
        return node.name if node.is_string and len(node.name) <= most else None
    name = bounded_name(node)
    if name not in ("CONCAT", "REPEAT", "REPLACE", "SPACE"):
        return None
    args = arguments_of(node)
    if name == "SPACE":
        count = constant_number(args[0])
        return " " * count if count is not None and count <= most else None
    texts = [constant_text(argument, most) for argument in (args[:1] if name == "REPEAT" else args)]
    if any(text is None for text in texts):
        return None
    known = [text for text in texts if text is not None]
    if name == "CONCAT":
        return "".join(known) if sum(map(len, known)) <= most else None
    if name == "REPEAT":
        count = constant_number(args[1])
        return known[0] * count if count is not None and len(known[0]) * count <= most else None
    text, old, new = known
    grown = text.count(old) * len(new) if old else 0
    return text.replace(old, new) if old and len(text) + grown <= most else None
