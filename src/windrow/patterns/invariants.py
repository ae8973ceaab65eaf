"""What the patterns of every plan must satisfy, before and after every rule."""

from __future__ import annotations

from windrow.patterns.lattice import UpdatePattern
from windrow.patterns.propagation import annotate
from windrow.plan.algebra.invariants import BrokenPlanError
from windrow.plan.algebra.nodes import ContinuousPlan, NrrJoin, OutputRows, OutputWindow, walk


def check_patterns(plan: ContinuousPlan, rule: str | None = None) -> None:
    """Raise BrokenPlanError, naming the rule that made the plan, unless both of these hold:

    the input of a join with a table that is NON RETROACTIVE is not STR, since the version of the table that a withdrawn
    row had met may be gone (Golab and Özsu, section 5.4.2; the join with another table keeps its rows and their ends,
    and may have any input); only output that is MONOTONIC has a window.
    """
    try:
        annotate(plan)
    except ValueError:
        for node in walk(plan.root):  # inputs first: below the first that fails everything holds
            if isinstance(node, NrrJoin) and annotate(node.input).state is UpdatePattern.STR:
                what = f"a join with a table that is NON RETROACTIVE has strict input ({annotate(node.input).why})"
                raise BrokenPlanError(what, node, rule) from None
            if isinstance(node, OutputWindow | OutputRows) and (output := annotate(node.input).output):
                what = f"a window is over output that is {output}"
                raise BrokenPlanError(what, node, rule) from None
        raise
