"""Formatting of amounts on the cost pages."""

from django import template

register = template.Library()


@register.filter
def amount(value: float | None) -> str:
    """Format with three significant digits and thousands separators: 0.0123, 4.57, 1,234."""
    if value is None:
        return "–"
    if not value:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 1_000 else f"{value:.3g}"


@register.filter
def sum_of(value: float | None, currency: str) -> str:
    """Format money with two decimals, or three significant digits if it is little."""
    text = amount(value) if value is None or abs(value) < 1 else f"{value:,.2f}"
    return f"{text} {currency}".strip()


@register.filter
def seconds_of(hours: float | None) -> str:
    return amount(None if hours is None else hours * 3600)


@register.filter
def minutes_of(hours: float | None) -> str:
    return amount(None if hours is None else hours * 60)
