"""A small line chart as SVG, without another library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from pathlib import Path

_COLOURS = ("#1b6ca8", "#c2571a", "#3a7d44", "#7b3f8c", "#8a6d3b")
_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM = 720, 440, 70, 40, 30, 60


@dataclass(frozen=True)
class _Axis:
    """Where a number stands between 0 and 1, and the numbers with a grid line."""

    low: float
    high: float
    is_log: bool

    @staticmethod
    def of(numbers: Sequence[float], is_log: bool) -> _Axis:
        if not is_log:
            return _Axis(0.0, max(numbers) * 1.05 or 1.0, False)
        low, high = (fit(log10(max(one(numbers), 1e-9))) for one, fit in ((min, floor), (max, ceil)))
        return _Axis(low, max(high, low + 1), True)

    def at(self, number: float) -> float:
        placed = log10(max(number, 1e-9)) if self.is_log else number
        return (placed - self.low) / (self.high - self.low)

    @property
    def lines(self) -> list[float]:
        if self.is_log:
            return [10.0**power for power in range(int(self.low), int(self.high) + 1)]
        return [self.high * step / 5 for step in range(6)]


def line_chart(
    path: Path,
    title: str,
    x_label: str,
    y_label: str,
    series: Mapping[str, Sequence[tuple[float, float]]],
    is_log: bool = False,
) -> None:
    """Write one chart: each series is a line with a dot per point; a single point is a square. `is_log`: both axes have
    powers of ten."""
    points = [p for line in series.values() for p in line]
    across, up = (_Axis.of([p[i] for p in points], is_log) for i in (0, 1))

    def at(x: float, y: float) -> tuple[float, float]:
        width, height = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
        return _LEFT + width * across.at(x), _HEIGHT - _BOTTOM - height * up.at(y)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="24" font-size="15">{title}</text>',
        f'<text x="{_WIDTH / 2}" y="{_HEIGHT - 14}" text-anchor="middle">{x_label}</text>',
        f'<text x="16" y="{_HEIGHT / 2}" text-anchor="middle" transform="rotate(-90 16 {_HEIGHT / 2})">{y_label}</text>',
    ]
    for number in across.lines:
        x = at(number, up.lines[0])[0]
        out.append(f'<line x1="{x}" y1="{_TOP}" x2="{x}" y2="{_HEIGHT - _BOTTOM}" stroke="#ddd"/>')
        out.append(f'<text x="{x}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">{_told(number)}</text>')
    for number in up.lines:
        y = at(across.lines[0], number)[1]
        out.append(f'<line x1="{_LEFT}" y1="{y}" x2="{_WIDTH - _RIGHT}" y2="{y}" stroke="#ddd"/>')
        out.append(f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{_told(number)}</text>')
    for i, (name, line) in enumerate(series.items()):
        colour = _COLOURS[i % len(_COLOURS)]
        placed = [at(*p) for p in line]
        out.append(
            f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in placed)}"/>'
        )
        for x, y in placed:
            mark = (
                f'<rect x="{x - 5:.1f}" y="{y - 5:.1f}" width="10" height="10"'
                if len(placed) == 1
                else f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"'
            )
            out.append(f'{mark} fill="{colour}"/>')
        out.append(
            f'<text x="{_WIDTH - _RIGHT - 8}" y="{_TOP + 16 + 16 * i}" text-anchor="end" fill="{colour}">{name}</text>'
        )
    path.write_text("\n".join([*out, "</svg>"]) + "\n", encoding="utf-8")


def _told(number: float) -> str:
    return f"{number:,.0f}" if number >= 1_000 else f"{number:.3g}"
