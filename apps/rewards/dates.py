"""Read a date in the ways of seven languages: July 4, 1776, 4. Juli 1776, 1776年7月4日."""

import re
from functools import cache
from typing import NamedTuple

MAX_TEXT_LENGTH = 400  # characters of a text that names one date
_MONTHS = """
january jan januar janvier enero janeiro gennaio января январь
february feb februar février fevrier febrero fevereiro febbraio февраля февраль
march mar märz mars marzo março марта март
april apr avril abril aprile апреля апрель
may mai mayo maio maggio мая май
june jun juni juin junio junho giugno июня июнь
july jul juli juillet julio julho luglio июля июль
august aug août aout agosto августа август
september sept sep septembre septiembre setembro settembre сентября сентябрь
october oct oktober octobre octubre outubro ottobre октября октябрь
november nov novembre noviembre novembro ноября ноябрь
december dec dezember décembre decembre diciembre dezembro dicembre декабря декабрь
""".strip().splitlines()
# Words that deny the date, or name others beside it.
_ANOTHER = re.compile(
    r"(?<![^\W_])(?:not|never|no|or|before|after|by|until|till|since|from|between|around|about"
    r"|circa"
    r"|later|earlier|either|maybe|perhaps|possibly|nicht|kein\w*|oder|vor|nach|bis|seit|um|pas|ou"
    r"|avant|après|depuis|vers|o|antes|después|desde|hasta|hacia|не|или|до|после|около)(?![^\W_])"
    r"|n['’]t\b|\?|不|没|或|か|前|后|後|ない|ません",
    re.I,
)


class Date(NamedTuple):
    """Date; `year` is None where only the day and the month are said."""

    year: int | None
    month: int
    day: int


@cache
def _table() -> tuple[re.Pattern, dict[str, int]]:
    months = {name: place for place, line in enumerate(_MONTHS, 1) for name in line.split()}
    names = "|".join(sorted(months, key=len, reverse=True))
    month = rf"(?P<{{}}>{names})\.?"
    year = r"(?P<{}>[12]\d{{3}})"
    forms = (
        month.format("month_1")
        + r"\s(?P<day_1>\d{1,2})(?:st|nd|rd|th)?(?!\d)(?:,?\s"
        + year.format("year_1")
        + ")?",
        r"(?P<day_2>\d{1,2})(?:st|nd|rd|th|er|\.|º)?\s(?:of\s|de\s|di\s)?"
        + month.format("month_2")
        + r"(?![^\W_])(?:,?\s(?:de\s|del\s|of\s)?"
        + year.format("year_2")
        + ")?",
        r"(?P<year_3>[12]\d{3})[-/.](?P<month_3>\d{1,2})[-/.](?P<day_3>\d{1,2})",
        r"(?:(?P<year_4>[12]\d{3})\s?年\s?)?(?P<month_4>\d{1,2})\s?月\s?(?P<day_4>\d{1,2})\s?日",
        r"(?P<day_5>\d{1,2})\.\s?(?P<month_5>\d{1,2})\.\s?(?P<year_5>[12]\d{3})",
        r"(?P<month_6>\d{1,2})/(?P<day_6>\d{1,2})/(?P<year_6>[12]\d{3})",
    )
    return re.compile(rf"(?<![\w/.-])(?:{'|'.join(forms)})(?![\d/-])", re.I), months


def _read(match: re.Match) -> Date | None:
    """Return the date; None if it is invalid, or ambiguous as 4/7/1776 (April or July)."""
    names, months = match.groupdict(), _table()[1]
    form = next(place for place in range(1, 7) if names[f"day_{place}"])
    month, day, year = (names[f"{part}_{form}"] for part in ("month", "day", "year"))
    number = months[month.lower()] if month.lower() in months else int(month)
    date = Date(int(year) if year else None, number, int(day))
    if form == 6:
        if date.month > 12:
            date = Date(date.year, date.day, date.month)
        elif date.day <= 12 and date.day != date.month:
            return None
    return date if 1 <= date.month <= 12 and 1 <= date.day <= 31 else None


def date_of(text: str) -> Date | None:
    """Return the date if the whole text is one; else None."""
    match = _table()[0].fullmatch(text.strip(" .*$")) if len(text) <= MAX_TEXT_LENGTH else None
    return _read(match) if match else None


def is_date(text: str, reference: str) -> bool:
    """Tell whether the text names one date and no other number, and it is the reference's."""
    expected = date_of(reference)
    if expected is None or len(text) > MAX_TEXT_LENGTH:
        return False
    matches = list(_table()[0].finditer(text))
    if len(matches) != 1:
        return False
    other_text = text[: matches[0].start()] + " " + text[matches[0].end() :]
    date = _read(matches[0])
    if date is None or _ANOTHER.search(other_text) or re.search(r"\d", other_text):
        return False
    return date[1:] == expected[1:] and expected.year in (None, date.year)
