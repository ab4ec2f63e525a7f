"""Small marks that every page uses: icons, reward chips, gauges, ages.

They take plain values and return safe markup.
"""

import json
from collections.abc import Mapping
from datetime import datetime

from django import template
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString

from apps.rewards.models import Reward
from apps.rollouts.markup import markup
from apps.tasksets.messages import Content, PicturePart, content_text

register = template.Library()
AGE_UNITS = ((86_400, "d"), (3_600, "h"), (60, "min"))
HUES = 10
# CSS pixels: smaller pictures are enlarged by an integer factor, so that their pixels stay square
ROOM = 240
MINIATURE = 56  # CSS pixels of a side
MINIATURES = 4  # per line


@register.simple_tag
def icon(name: str) -> SafeString:
    return format_html('<svg class="icon" aria-hidden="true"><use href="#i-{}"></use></svg>', name)


@register.simple_tag
def copy(text: object, what: str) -> SafeString:
    """Return a button that copies the text; a script shows it. `what` names it: `the fingerprint`.

    Its name says what is copied, for people who do not see the place where it stands.
    """
    return format_html(
        '<button type="button" class="plain copy" data-copy="{}" aria-label="Copy {}" title="Copy'
        ' {}" hidden>{}</button>',
        text,
        what,
        what,
        icon("copy"),
    )


@register.filter
def hue(value: float | None) -> str:
    """Return the step of the diverging reward scale, r0 (0 or less) … r10 (1 or more)."""
    return "" if value is None else f"r{round(min(1.0, max(0.0, value)) * HUES)}"


@register.filter
def number(value: float | None) -> str:
    """Format a number: few digits, no exponent in the usual range, thousands separators."""
    if value is None:
        return "–"
    size = abs(value)
    if size >= 1_000 or float(value).is_integer():
        return f"{value:,.0f}"
    if size >= 100:
        return f"{value:.0f}"
    return f"{value:.2f}" if size >= 0.1 else f"{value:.3g}"


@register.filter
def bounded(count: int, limit: int) -> str:
    """Format a count that stopped at `limit`."""
    return f"{limit:,}+" if count >= limit else f"{count:,}"


@register.filter
def reward(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


@register.filter
def signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.2f}".replace("-", "−")


@register.filter
def signed_number(value: float | None) -> str:
    """Format a difference with a sign and its significant digits."""
    if value is None:
        return "–"
    sign = "+" if value > 0 else ""
    return f"{'−' if value < 0 else sign}{number(abs(value))}"


@register.filter
def percentage_points(value: float | None) -> str:
    """Format a difference of two shares."""
    return (
        "–"
        if value is None
        else f"{100 * value:+.1f}".replace("-", "−").replace("+0.0", "0.0").replace("−0.0", "0.0")
    )


@register.filter
def elo(value: float | None) -> str:
    """Format a strength on the Elo scale as a whole number with its sign."""
    return (
        "–"
        if value is None
        else f"{value:+,.0f}".replace("-", "−").replace("+0", "0").replace("−0", "0")
    )


@register.filter
def percent(value: float | None, digits: int = 0) -> str:
    return "–" if value is None else f"{100 * value:.{digits}f} %"


@register.filter
def coefficient(value: float | None) -> str:
    """Format a coefficient up to 1, with its sign if it is negative."""
    return "–" if value is None else f"{value:.2f}".replace("-0.00", "0.00").replace("-", "−")


@register.filter
def seconds(value: float | None) -> str:
    if value is None:
        return "–"
    if value >= 120:
        return f"{value / 60:.0f} min"
    return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"


@register.filter
def long_time(value: float | None) -> str:
    """Format seconds in the unit that fits: 40 s, 12 min, 3.5 h, 2.1 d."""
    if value is None:
        return "–"
    for size, word in ((86_400, "d"), (3_600, "h")):
        if value >= size:
            return f"{value / size:.1f} {word}"
    return f"{value / 60:.0f} min" if value >= 120 else f"{value:.0f} s"


DETAIL_SHOWN = 4_000  # characters of one detail


@register.filter
def pairs(mapping: Mapping) -> list[tuple[str, str, bool]]:
    """Return name, text and whether it spans lines, for each item of a rating's details.

    No key of the details is resolved as a template variable.
    """
    texts = [(name, _detail_text(value)) for name, value in mapping.items()]
    return [
        (name.replace("_", " "), text[:DETAIL_SHOWN], "\n" in text or len(text) > 40)
        for name, text in texts
    ]


def _detail_text(value: object) -> str:
    if (
        isinstance(value, list)
        and value
        and all(isinstance(item, str | int | float) for item in value)
    ):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=1)


@register.filter
def get(mapping: Mapping, key: object) -> object:
    return mapping.get(key)


@register.filter
def milliseconds(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value / 1000:.1f} s" if value >= 1000 else f"{value:.0f} ms"


@register.filter
def short_time(seconds: float) -> str:
    return milliseconds(1000 * seconds)


@register.filter
def bytes_of(value: int) -> str:
    """Format a size with a decimal prefix: 3.1 MB."""
    size = float(value)
    unit = "B"
    for unit in ("B", "kB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"


@register.simple_tag
def gauge(value: float | None) -> SafeString:
    """Return a reward as a short bar with its number; a dash if there is none."""
    if value is None:
        return format_html(
            '<span class="gauge faint"><svg viewBox="0 0 56 6" aria-hidden="true"></svg>{}</span>',
            "–",
        )
    drawn = '<svg viewBox="0 0 56 6" aria-hidden="true"><rect width="{}" height="6"></rect></svg>'
    return format_html(
        '<span class="gauge {}">' + drawn + '<span class="num">{}</span></span>',
        hue(value),
        f"{56 * min(1.0, max(0.0, value)):.1f}",
        f"{value:.2f}",
    )


@register.simple_tag
def chip(judgement: Reward) -> SafeString:
    """Return one judgement of a reply: who judged, and the value; why, on hovering.

    Drawn here, not by a template: lists have hundreds of them.
    """
    value = judgement.value
    without = "broken" if judgement.source == "human" else "failed"
    return format_html(
        '<span class="chip {} {}" title="{}">{} {}</span>',
        judgement.kind,
        hue(value) or "failed",
        f"{judgement.kind_label}: {judgement.reason}" if judgement.reason else judgement.kind_label,
        judgement.shown_name,
        without if value is None else reward(value),
    )


@register.simple_tag
def whisker(value: float | None, low: float | None, high: float | None) -> SafeString:
    """Return a metric from 0 to 1 as a tick within its interval; an empty track without one."""
    if value is None or low is None or high is None:
        return SafeString(
            '<svg class="whisker" viewBox="0 0 100 8" preserveAspectRatio="none"'
            ' aria-hidden="true"></svg>'
        )
    between = '<rect class="interval" x="{}" y="1" width="{}" height="6"></rect>'
    tick = '<rect class="tick" x="{}" y="0" width="2" height="8"></rect>'
    return format_html(
        '<svg class="whisker" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        + between
        + tick
        + "</svg>",
        f"{100 * low:.1f}",
        f"{max(100 * (high - low), 0.5):.1f}",
        f"{min(max(100 * value - 1, 0), 98):.1f}",
    )


@register.simple_tag
def bar(part: float, whole: float) -> SafeString:
    width = 100 * min(1.0, part / whole) if whole else 0
    return format_html(
        '<svg viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true"><rect width="{}"'
        ' height="6"></rect></svg>',
        f"{width:.1f}",
    )


@register.simple_tag
def ago(moment: datetime | None) -> SafeString | str:
    """Return how long ago a moment was, as an element that the browser keeps up to date."""
    if moment is None:
        return "–"
    seconds = max(0, round((timezone.now() - moment).total_seconds()))
    words = next(
        (f"{seconds // size} {word}" for size, word in AGE_UNITS if seconds >= size), f"{seconds} s"
    )
    return format_html(
        '<time datetime="{}" title="{}" data-age>{}</time>',
        moment.isoformat(),
        f"{moment:%Y-%m-%d %H:%M:%S} UTC",
        words,
    )


@register.simple_tag
def stars(rating: int | None) -> SafeString:
    """Return five marks that a screen reader reads as one number."""
    number = rating or 0
    return format_html(
        '<span class="stars" role="img" aria-label="{} of 5 stars"'
        ' data-star-count="{}"><i></i><i></i><i></i><i></i><i></i></span>',
        number,
        number,
    )


@register.filter
def prose(text: str) -> SafeString:
    """Render a model's output as HTML; the only function that does so."""
    return markup(text)


@register.filter
def as_text(content: Content) -> str:
    """Return the text of a message, for lines and lists."""
    return content_text(content)


@register.simple_tag
def render_content(content: Content, is_plain: bool = False) -> SafeString:
    """Render a message: its texts, as prose or (`is_plain`) verbatim, and its pictures.

    Pictures reserve the room that they will take.
    """
    words = escape if is_plain else markup
    if isinstance(content, str):
        return words(content)
    numbered = []
    pictures = 0
    for part in content:
        pictures += part["type"] == "image"
        numbered.append(
            (
                draw_message_picture(part, pictures)
                if part["type"] == "image"
                else words(part["text"]),
            )
        )
    return format_html_join("", "{}", numbered)


def draw_message_picture(part: PicturePart, number: int) -> SafeString:
    width, height = _size(part)
    times = max(1, ROOM // max(width, height))
    return format_html(
        '<img class="shown{}" src="{}" width="{}" height="{}" alt="Picture {}" decoding="async">',
        " pixels" if times > 1 else "",
        reverse("picture", args=[part["picture"]]),
        width * times,
        height * times,
        number,
    )


@register.simple_tag
def miniatures(prompt: list[dict]) -> SafeString:
    """Return the first pictures of a prompt, small, for cards and lists."""
    parts = [
        part
        for message in prompt
        if not isinstance(message["content"], str)
        for part in message["content"]
    ]
    pictures = [part for part in parts if part["type"] == "image"]
    if not pictures:
        return SafeString("")
    drawn = format_html_join(
        "",
        '<img src="{}" width="{}" height="{}" alt="Picture {}" loading="lazy" decoding="async">',
        (
            (reverse("picture", args=[part["picture"]]), *_within(part, MINIATURE), number)
            for number, part in enumerate(pictures[:MINIATURES], start=1)
        ),
    )
    more = f"+{len(pictures) - MINIATURES}" if len(pictures) > MINIATURES else ""
    return format_html('<span class="thumbnails">{}{}</span>', drawn, more)


def _within(part: PicturePart, side: int) -> tuple[int, int]:
    """Return the picture's width and height, scaled so that the longer is `side`."""
    width, height = _size(part)
    scale = side / max(width, height)
    return max(1, round(width * scale)), max(1, round(height * scale))


def _size(part: PicturePart) -> tuple[int, int]:
    """Return the picture's width and height in pixels."""
    return part["width"], part["height"]
