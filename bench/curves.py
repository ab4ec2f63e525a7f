"""Draw learning curves as SVG without a plotting library: a panel per start, a colour per curve."""

from collections.abc import Mapping, Sequence
from xml.sax.saxutils import escape

WIDTH = 420
HEIGHT = 260
LEFT = 46
TOP = 34
GAP = 150
COLOURS = ("#0b6e4f", "#c1440e", "#5b4b8a", "#b08900", "#1f6fb2")

Curves = Mapping[str, Sequence[Mapping[str, float]]]


def draw_curves(panels: Mapping[str, Curves]) -> str:
    """Return the document: accuracy (0 to 1) over updates.

    Thin lines are seeds, the thick one is their mean.
    """
    width = len(panels) * (WIDTH + LEFT + GAP)
    parts = [
        _panel(n * (WIDTH + LEFT + GAP), title, curves)
        for n, (title, curves) in enumerate(panels.items())
    ]
    box = f"0 0 {width} {HEIGHT + TOP + 40}"
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" font-family="sans-serif"'
        ' font-size="12">'
    )
    return (
        "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>"])
        + "\n"
    )


def gallery(curves: Mapping[str, Mapping[str, float]], columns: int = 5) -> str:
    """Return small multiples with one curve each: accuracy (0 to 1) over updates.

    Each shows the final value.
    """
    width = 150
    height = 84
    gap = 26
    head = 22
    rows = -(-len(curves) // columns)
    box = f"0 0 {columns * (width + gap) + 10} {rows * (height + head + gap)}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" font-family="sans-serif"'
        ' font-size="11">'
    ]
    parts.append('<rect width="100%" height="100%" fill="white"/>')
    for n, (name, curve) in enumerate(curves.items()):
        x = 10 + n % columns * (width + gap)
        y = head + n // columns * (height + head + gap)
        longest = max(map(int, curve))
        points = " ".join(
            f"{x + width * int(u) / longest:.1f},{y + height * (1 - value):.1f}"
            for u, value in curve.items()
        )
        parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="none" stroke="#ddd"/>'
        )
        parts.append(
            f'<line x1="{x}" x2="{x + width}" y1="{y + height / 2}" y2="{y + height / 2}"'
            ' stroke="#eee"/>'
        )
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{COLOURS[0]}" stroke-width="1.8"/>'
        )
        parts.append(f'<text x="{x}" y="{y - 6}">{escape(name)}</text>')
        parts.append(
            f'<text x="{x + width}" y="{y - 6}" text-anchor="end"'
            f' fill="#555">{list(curve.values())[-1]:.2f}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(x: int, title: str, curves: Curves) -> str:
    x += LEFT
    longest = max(
        (int(update) for runs in curves.values() for run in runs for update in run), default=1
    )
    parts = [
        f'<text x="{x}" y="18" font-weight="bold">{escape(title)} start: sampled accuracy by'
        " update</text>"
    ]
    for tenths in range(0, 11, 2):
        y = TOP + HEIGHT * (1 - tenths / 10)
        parts.append(f'<line x1="{x}" x2="{x + WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(
            f'<text x="{x - 8}" y="{y + 4:.1f}" text-anchor="end">{tenths / 10:.1f}</text>'
        )
    for update in range(0, longest + 1, 50):
        parts.append(
            f'<text x="{x + WIDTH * update / longest:.1f}" y="{TOP + HEIGHT + 18}"'
            f' text-anchor="middle">{update}</text>'
        )
    for n, (name, runs) in enumerate((name, runs) for name, runs in curves.items() if runs):
        colour = COLOURS[n % len(COLOURS)]
        parts += [_line(x, run, longest, colour, 0.8, 0.35) for run in runs]
        mean = {update: sum(run[update] for run in runs) / len(runs) for update in runs[0]}
        parts.append(_line(x, mean, longest, colour, 2.2, 1))
        parts.append(
            f'<rect x="{x + WIDTH + 12}" y="{TOP + 20 * n}" width="12" height="12"'
            f' fill="{colour}"/>'
        )
        parts.append(f'<text x="{x + WIDTH + 30}" y="{TOP + 20 * n + 11}">{escape(name)}</text>')
    return "\n".join(parts)


def _line(
    x: int, curve: Mapping[str, float], longest: int, colour: str, width: float, opacity: float
) -> str:
    points = " ".join(
        f"{x + WIDTH * int(u) / longest:.1f},{TOP + HEIGHT * (1 - value):.1f}"
        for u, value in curve.items()
    )
    return (
        f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="{width}"'
        f' stroke-opacity="{opacity}"/>'
    )
