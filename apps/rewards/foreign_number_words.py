"""Spell the numbers from 13 to 99 in German, French, Spanish and Russian."""

_GERMAN = """
ein zwei drei vier fünf sechs sieben acht neun
dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn
zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig
"""
_FRENCH = """
un deux trois quatre cinq six sept huit neuf dix onze douze
treize quatorze quinze seize dix-sept dix-huit dix-neuf
vingt trente quarante cinquante soixante
"""
_SPANISH = """
uno dos tres cuatro cinco seis siete ocho nueve
trece catorce quince dieciséis diecisiete dieciocho diecinueve veinte veintiuno veintidós veintitrés
treinta cuarenta cincuenta sesenta setenta ochenta noventa
veinticuatro veinticinco veintiséis veintisiete veintiocho veintinueve
"""

_RUSSIAN = """
один два три четыре пять шесть семь восемь девять
тринадцать четырнадцать пятнадцать шестнадцать семнадцать восемнадцать девятнадцать
двадцать тридцать сорок пятьдесят шестьдесят семьдесят восемьдесят девяносто
"""


def up_to_99() -> dict[str, int]:
    """Return the numbers by their words."""
    return {**_german(), **_french(), **_spanish(), **_russian()}


def _lines(table: str) -> list[list[str]]:
    return [line.split() for line in table.strip().splitlines()]


def _german() -> dict[str, int]:
    ones, teens, tens = _lines(_GERMAN)
    values = {word: value for value, word in enumerate(teens, 13)}
    for value, word in zip(range(20, 100, 10), tens, strict=True):
        values[word] = value
        values |= {f"{unit_word}und{word}": value + unit for unit, unit_word in enumerate(ones, 1)}
    return values


def _french() -> dict[str, int]:
    ones, teens, tens = _lines(_FRENCH)
    values = {word: value for value, word in enumerate(teens, 13)}
    for value, word in zip(range(20, 70, 10), tens, strict=True):
        values[word] = value
        more = [*ones, *teens] if value == 60 else ones[:9]
        for unit, unit_word in enumerate(more, 1):
            joint = " et " if unit_word in ("un", "onze") else "-"
            values[f"{word}{joint}{unit_word}"] = value + unit
    values["quatre-vingts"] = 80
    eighties = {
        f"quatre-vingt-{unit_word}": 80 + unit for unit, unit_word in enumerate([*ones, *teens], 1)
    }
    return values | eighties


def _spanish() -> dict[str, int]:
    ones, teens, tens, twenties = _lines(_SPANISH)
    values = {word: value for value, word in enumerate([*teens, *twenties], 13)}
    for value, word in zip(range(30, 100, 10), tens, strict=True):
        values[word] = value
        values |= {f"{word} y {unit_word}": value + unit for unit, unit_word in enumerate(ones, 1)}
    return values


def _russian() -> dict[str, int]:
    ones, teens, tens = _lines(_RUSSIAN)
    values = {word: value for value, word in enumerate(teens, 13)}
    for value, word in zip(range(20, 100, 10), tens, strict=True):
        values[word] = value
        values |= {f"{word} {unit_word}": value + unit for unit, unit_word in enumerate(ones, 1)}
    return values
