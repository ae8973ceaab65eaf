"""A small line chart as SVG, without another library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

_COLOURS = ("#1b6ca8", "#c2571a", "#3a7d44", "#7b3f8c", "#8a6d3b")
_WIDTH, _HEIGHT, _LEFT, _TOP, _RIGHT, _BOTTOM = 720, 440, 70, 40, 30, 60


def line_chart(
    path: Path, title: str, x_label: str, y_label: str, series: Mapping[str, Sequence[tuple[float, float]]]
) -> None:
    """Write one chart: each series is a line with a dot per point; a single point is a square."""
    points = [p for line in series.values() for p in line]
    high_x, high_y = max(p[0] for p in points) * 1.05 or 1.0, max(p[1] for p in points) * 1.05 or 1.0

    def at(x: float, y: float) -> tuple[float, float]:
        across, down = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
        return _LEFT + across * x / high_x, _HEIGHT - _BOTTOM - down * y / high_y

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>',
        f'<text x="{_LEFT}" y="24" font-size="15">{title}</text>',
        f'<text x="{_WIDTH / 2}" y="{_HEIGHT - 14}" text-anchor="middle">{x_label}</text>',
        f'<text x="16" y="{_HEIGHT / 2}" text-anchor="middle" transform="rotate(-90 16 {_HEIGHT / 2})">{y_label}</text>',
    ]
    for step in range(6):
        x, y = at(high_x * step / 5, 0), at(0, high_y * step / 5)
        out.append(f'<line x1="{x[0]}" y1="{_TOP}" x2="{x[0]}" y2="{_HEIGHT - _BOTTOM}" stroke="#ddd"/>')
        out.append(f'<line x1="{_LEFT}" y1="{y[1]}" x2="{_WIDTH - _RIGHT}" y2="{y[1]}" stroke="#ddd"/>')
        out.append(f'<text x="{x[0]}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">{high_x * step / 5:.3g}</text>')
        out.append(f'<text x="{_LEFT - 8}" y="{y[1] + 4}" text-anchor="end">{high_y * step / 5:.3g}</text>')
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
