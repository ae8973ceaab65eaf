"""Who shares what: the rules of Golab's dissertation, sections 8.3 and 8.4, place queries and compute them together.

`rules.py` is the table. Each rule is a function that answers yes, or no with a reason, about a query and a synopsis as
`uses.py` describes them. The functions stand by family: `over_windows.py`, `over_joins.py`, `selections.py`,
`periods.py`. A rule that is off (the setting `disabled_rules`) changes what is shared, and no answer.
"""
