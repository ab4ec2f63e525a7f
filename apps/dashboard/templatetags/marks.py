"""The small marks every page uses: icons, reward chips, gauges, ages. Plain values in, safe markup out."""

from collections.abc import Mapping
from datetime import datetime

from django import template
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from apps.rollouts.markup import markup

register = template.Library()
AGE_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))
HUES = 10


@register.simple_tag
def icon(name: str) -> SafeString:
    return format_html('<svg class="icon" aria-hidden="true"><use href="#i-{}"></use></svg>', name)


@register.filter
def hue(value: float | None) -> str:
    """The step of the diverging reward scale, r0 (0 or less) … r10 (1 or more)."""
    return "" if value is None else f"r{round(min(1.0, max(0.0, value)) * HUES)}"


@register.filter
def figure(value: float | None) -> str:
    """A number as people read it: few digits, no exponent in the usual range, thousands parted."""
    if value is None:
        return "–"
    size = abs(value)
    if size >= 1_000 or float(value).is_integer():
        return f"{value:,.0f}"
    if size >= 100:
        return f"{value:.0f}"
    return f"{value:.2f}" if size >= 0.1 else f"{value:.3g}"


@register.filter
def bounded(count: int, most: int) -> str:
    """A count that stopped at `most`."""
    return f"{most:,}+" if count >= most else f"{count:,}"


@register.filter
def reward(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


@register.filter
def signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.2f}".replace("-", "−")


@register.filter
def percent(value: float | None, digits: int = 0) -> str:
    return "–" if value is None else f"{100 * value:.{digits}f} %"


@register.filter
def coefficient(value: float | None) -> str:
    """An agreement or the like, up to 1, with its sign where it is below 0."""
    return "–" if value is None else f"{value:.2f}".replace("-0.00", "0.00").replace("-", "−")


@register.filter
def seconds(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:.1f} s" if value < 10 else f"{value:.0f} s" if value < 120 else f"{value / 60:.0f} min"


@register.filter
def get(mapping: Mapping, key: object) -> object:
    return mapping.get(key)


@register.filter
def milliseconds(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value / 1000:.1f} s" if value >= 1000 else f"{value:.0f} ms"


@register.filter
def bytes_of(value: int) -> str:
    """A size with a decimal prefix: 3.1 MB."""
    size, unit = float(value), "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


@register.simple_tag
def gauge(value: float | None) -> SafeString:
    """A reward as a short bar with its number; nothing but a dash when there is none."""
    if value is None:
        return format_html('<span class="gauge faint"><svg viewBox="0 0 56 6" aria-hidden="true"></svg>{}</span>', "–")
    drawn = '<svg viewBox="0 0 56 6" aria-hidden="true"><rect width="{}" height="6"></rect></svg>'
    return format_html(
        '<span class="gauge {}">' + drawn + '<span class="num">{}</span></span>',
        hue(value), f"{56 * min(1.0, max(0.0, value)):.1f}", f"{value:.2f}",
    )  # fmt: skip


@register.simple_tag
def bar(part: float, whole: float) -> SafeString:
    width = 100 * min(1.0, part / whole) if whole else 0
    return format_html(
        '<svg viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true"><rect width="{}" height="6"></rect></svg>',
        f"{width:.1f}",
    )


@register.simple_tag
def ago(moment: datetime | None) -> SafeString | str:
    """How long ago, counting on in the browser."""
    if moment is None:
        return "–"
    seconds = max(0, round((timezone.now() - moment).total_seconds()))
    words = next((f"{seconds // size} {word}" for size, word in AGE_UNITS if seconds >= size), f"{seconds} s")
    return format_html(
        '<time datetime="{}" title="{}" data-age>{}</time>', moment.isoformat(), f"{moment:%Y-%m-%d %H:%M:%S} UTC", words
    )


@register.simple_tag
def stars(given: int | None) -> SafeString:
    """Five marks, read out as one number."""
    number = given or 0
    return format_html(
        '<span class="stars" role="img" aria-label="{} of 5 stars" data-given="{}"><i></i><i></i><i></i><i></i><i></i></span>',
        number,
        number,
    )


@register.filter
def prose(text: str) -> SafeString:
    """Model output, by the one function that makes HTML of it."""
    return markup(text)
