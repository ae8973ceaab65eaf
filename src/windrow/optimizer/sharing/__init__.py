"""The sharing rules of Golab's dissertation, sections 8.3 and 8.4: they place queries and compute them together.

`rules.py` is the table. Each rule is a function of a query and a synopsis (`uses.py`) that returns yes, or no with a
reason. The functions are grouped by family: `over_windows.py`, `over_joins.py`, `selections.py`, `same_answers.py`.
Disabling a rule (the setting `disabled_rules`) changes what is shared, but no answer.
"""
