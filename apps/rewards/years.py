"""Read years with their era, in seven languages: 1945 AD is 1945, and 44 v. Chr. is 44 BC."""

import re

_J_C = r"(?:J\.?\s?-?\s?C(?![A-Za-z])\.?|Jésus-Christ)"
_BEFORE_CHRIST = (
    r"B\.?\s?C\.?\s?(?:E\.?)?|bce?|v\.\s?Chr\.?|vor\s(?:Christus|Christi Geburt)|v\.\s?u\.\s?Z\."
    rf"|av(?:ant|\.)?\s?{_J_C}|avant notre ère|a\.\s?(?:de\s)?C\.?|a\.\s?e\.\s?c\."
    r"|antes de Cristo|до\s(?:н\.?\s?э\.?|нашей эры)"
)
_AFTER_CHRIST = (
    r"A\.?\s?D\.?|C\.?\s?E\.?|n\.\s?Chr\.?|nach\s(?:Christus|Christi Geburt)|u\.\s?Z\."
    rf"|(?:ap(?:rès|r\.|\.)?)\s?{_J_C}|de notre ère|d\.\s?(?:de\s)?C\.?|después de Cristo"
    r"|н\.?\s?э\.?|нашей эры"
)
_YEAR = r"(?<![\w.,])(\d{1,4})\s?(?:年|годы?|году|года|гг?\.)?\s?"
_BC = re.compile(
    rf"{_YEAR}(?:{_BEFORE_CHRIST})(?![^\W_])|(?:公元前|紀元前|纪元前|西元前)\s?(\d{{1,4}})\s?年?"
)
_AD = re.compile(
    rf"{_YEAR}(?:{_AFTER_CHRIST})(?![^\W_])"
    r"|(?:\b(?:A\.?D\.?|[Aa]nno\s[Dd]omini)|公元|西暦|西元)\s?(\d{1,4})(?!\d)"
)
_IS_YEAR = re.compile(r"\d{1,4}(?: BC)?")
# How a year stands alone, or in a phrase of its own: im Jahr 1945, 1945年, в 1945 году.
_PHRASE = re.compile(
    r"(?:(?:in|it was(?: in)?|the year|in the year(?: of)?|year|im|im jahre?|das jahr|en|l['’]an"
    r"|en l['’]an|(?:en )?l['’]année|en el año|el año|año|nel|в|на|于|在)\s?)?"
    r"(\d{1,4}(?: BC)?)\s?(?:年(?:に|です|だ|でした)?|год[ау]?|г\.?)?",
    re.I,
)
# A year that is not known for sure.
_VAGUE = re.compile(
    r"(?<![^\W_])(?:c(?:a|irca)?\.?|around|about|approximately|roughly|probably"
    r"|um|etwa|ungefähr|gegen"
    r"|circa|vers|environ|hacia|alrededor\sde|около|примерно)\s?\d{1,4}(?!\d)"
    r"|(?:大约|大約|约|約)\s?\d|\d年?(?:左右|前后|前後|ごろ|頃)",
    re.I,
)


def is_vague(text: str) -> bool:
    """Tell whether a year is named with "about" or the like."""
    return _VAGUE.search(text) is not None


def in_one_form(text: str) -> str:
    """Write years with an era as "44 BC", and those after Christ without it."""
    return _AD.sub(_plain, _BC.sub(lambda match: f"{_plain(match)} BC", text))


def _plain(match: re.Match) -> str:
    return match[1] or match[2]


def is_year(reference: str) -> bool:
    """Tell whether a reference may be a year: a whole number of up to four digits, perhaps BC."""
    return _IS_YEAR.fullmatch(in_one_form(reference).strip()) is not None


def alone(text: str) -> str:
    """Return the year if the text says nothing else; else ""."""
    match = _PHRASE.fullmatch(in_one_form(text).strip(" *.。!"))
    return match[1] if match else ""
