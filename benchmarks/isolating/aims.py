"""What Algorithm 8 (TTU) should reach, checked over all settings.

The lowest staleness is strict: a mean that is higher than another scheduler's is named, with the standard error of the
difference of the trials. `beyond_chance` counts those that are above by more than two standard errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import sqrt
from statistics import mean, stdev
from typing import Any

from isolating.figures import FOUR, Trials
from isolating.metrics import mean_of
from isolating.workload import Setting

LEAST_THROUGHPUT = 0.96
AS_FAST, FAR_FASTER = 1.05, 2.0

Checked = dict[str, Any]


def checked(runs: Mapping[Setting, Trials]) -> Checked:
    """Each aim, whether it is reached, and by how much."""
    means = {setting: {name: mean_of(one) for name, one in trials.items()} for setting, trials in runs.items()}
    aborted = max(one["TTU"].aborted_share or 0.0 for one in means.values())
    ratio = min((one["TTU"].throughput or 0.0) / (one["Serial"].throughput or 1.0) for one in means.values())
    out: Checked = {
        "ttu_aborts_nothing": {"reached": aborted == 0.0, "most_aborted": aborted},
        "ttu_is_freshest": _freshest(runs),
        "ttu_throughput_of_serial": {"reached": ratio >= LEAST_THROUGHPUT, "least": round(ratio, 4)},
    }
    answered = [one for setting, one in means.items() if setting.one_time_every_s is not None and one["TTU"].response_s]
    if answered:
        of_window = max((one["TTU"].response_s or 0.0) / (one["WS"].response_s or 1.0) for one in answered)
        of_serial = min((one["Serial"].response_s or 0.0) / (one["TTU"].response_s or 1.0) for one in answered)
        out["one_time_as_fast_as_window"] = {"reached": of_window <= AS_FAST, "most": round(of_window, 4)}
        out["one_time_far_faster_than_serial"] = {
            "reached": of_serial >= FAR_FASTER,
            "least_times": round(of_serial, 2),
        }
    return out


def lines_of(aims: Checked) -> list[str]:
    out = []
    for name, one in aims.items():
        numbers = ", ".join(f"{key} {value}" for key, value in one.items() if key not in ("reached", "exceptions"))
        out.append(f"{'reached' if one['reached'] else 'MISSED':<8} {name}: {numbers}")
        out += [f"           {exception}" for exception in one.get("exceptions", ())]
    return out


def _freshest(runs: Mapping[Setting, Trials]) -> Checked:
    """Whether TTU has the lowest staleness, of periodic and of one-time queries."""
    above, compared = [], 0
    for setting, trials in runs.items():
        measures = ("staleness_s", *(() if setting.one_time_every_s is None else ("one_time_staleness_s",)))
        compared += len(measures) * (len(FOUR) - 1)
        above += [one for name in measures for one in _staler(setting, trials, name)]
    beyond = sum(one["above_s"] > 2 * one["standard_error_s"] for one in above)
    return {
        "reached": not above,
        "comparisons": compared,
        "above": len(above),
        "beyond_chance": beyond,
        "exceptions": above,
    }


def _staler(setting: Setting, trials: Trials, measure: str) -> list[Checked]:
    """The schedulers whose mean is below that of TTU."""
    found = []
    for other in FOUR[:-1]:
        pairs = [(getattr(a, measure), getattr(b, measure)) for a, b in zip(trials["TTU"], trials[other], strict=True)]
        above = [one - two for one, two in pairs if one is not None and two is not None]
        if above and mean(above) > 0:
            error = stdev(above) / sqrt(len(above)) if len(above) > 1 else 0.0
            place = {"t": setting.pane_s, "n": setting.panes, "one_time": setting.one_time_every_s is not None}
            numbers = {"above_s": round(mean(above), 5), "standard_error_s": round(error, 5)}
            found.append({**place, "measure": measure, "than": other, **numbers})
    return found
