"""Draw answers that are right or wrong by construction, by scorer and class.

Every pair is drawn by a rule that makes both texts from the same numbers, so nobody had to decide
which are right. The same seed draws the same pairs.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from bench.math_pairs import ASKED, BOXED, SAID

SEED = 6
TIMES = 8  # draws of each rule


@dataclass(frozen=True)
class Pair:
    """`response`, judged by `reference`; `is_right` by construction; `question`: what was asked."""

    scorer: str
    category: str
    reference: object
    response: str
    is_right: bool
    question: str = ""


def draw_pairs(seed: int = SEED) -> list[Pair]:
    """Draw the pairs of all rules; what was drawn twice is there once."""
    draw = random.Random(seed)
    pairs: list[Pair] = []
    for category, rule in BOXED.items():
        for _ in range(TIMES):
            pairs += [
                Pair("math", category, reference, f"So it is \\boxed{{{answer}}}.", right)
                for reference, answer, right in rule(draw)
            ]
    for category, rule in SAID.items():
        for _ in range(TIMES):
            pairs += [
                Pair("math", category, reference, answer, right)
                for reference, answer, right in rule(draw)
            ]
    for category, rule in ASKED.items():
        for _ in range(TIMES):
            pairs += [
                Pair("math", category, reference, f"\\boxed{{{answer}}}", right, question)
                for question, reference, answer, right in rule(draw)
            ]
    for (scorer, category), rule in OTHERS.items():
        for _ in range(TIMES):
            pairs += [
                Pair(scorer, category, reference, answer, right)
                for reference, answer, right in rule(draw)
            ]
    return _different(pairs)


def _different(pairs: list[Pair]) -> list[Pair]:
    return list({repr(pair): pair for pair in pairs}.values())


def _one_letter(draw: random.Random) -> Iterator[tuple[object, str, bool]]:
    right, wrong, other = draw.sample("ABCD", 3)
    for answer in (
        f"The answer is {right}.",
        f"It is {right}, not {wrong}.",
        f"({right})",
        f"\\boxed{{{right}}}",
        f"{wrong} and {other} are wrong, so {right}.",
        f"Answer: {right}",
        f"答案是{right}",
        f"Option {right} is right, because options {wrong} and {other} are false.",
        f"We get \\boxed{{x^2 + y}}.\n**Answer: {right}**",
        f"{right} rather than {wrong}",
    ):
        yield right, answer, True
        yield wrong, answer, False
    yield right, f"Most pick {wrong}, but the right answer is {right}.", True
    yield wrong, f"Most pick {wrong}, but the right answer is {right}.", False
    yield right, f"The answer is not {right}.", False
    yield right, f"{right} or {wrong}", False
    yield right, "A, B, C, D", False
    yield right, f"- {right}\n- {wrong}", False


def _letters(draw: random.Random) -> Iterator[tuple[object, str, bool]]:
    first, second, other = draw.sample("ABCD", 3)
    for answer in (
        f"The answers are {first} and {second}.",
        f"- {first}\n- {second}",
        f"\\boxed{{{first}, {second}}}",
        f"{first}, {second}",
        f"Both {second} and {first} are right.",
        f"{first} and {second}, not {other}",
    ):
        yield [first, second], answer, True
        yield [first, other], answer, False
    yield [first, second], "A, B, C, D", False
    yield [first, second], first, False


def _quantities(draw: random.Random) -> Iterator[tuple[object, str, bool]]:
    n = draw.randrange(2, 60)
    m = draw.randrange(2, 30)
    for answer, value, unit in (
        (f"F = ma = {m} * {n} = {m * n} N", m * n, "N"),
        (f"{n} metres per second squared", n, "m/s^2"),
        (f"{n} m s^-2", n, "m/s^2"),
        (f"{n} h 30 min", 60 * n + 30, "min"),
        (f"{n} kmh", n, "km/h"),
        (f"{n} amps", n, "A"),
        (f"The speed is {n} kilometers per hour.", n, "km/h"),
        (f"{n} kJ", 1000 * n, "J"),
        (f"\\boxed{{{n}\\ \\text{{cm}}^2}}", n, "cm^2"),
        (f"about {n} litres", n, "L"),
    ):
        yield {"value": value, "unit": unit}, answer, True
        yield {"value": 2 * value, "unit": unit}, answer, False
        yield {"value": value, "unit": "kg*m"}, answer, False
    for answer in (
        "half of {} N",
        "twice {} N",
        "more than {} N",
        "It is a third of {} N.",
        "> {} N",
        "at least {} N",
    ):
        yield {"value": n, "unit": "N"}, answer.replace("{}", str(n)), False


def _counts(draw: random.Random) -> Iterator[tuple[object, str, bool]]:
    tens = draw.randrange(2, 10)
    unit = draw.randrange(1, 10)
    ones = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    names = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
    count = 10 * tens + unit
    spelled = f"{names[tens - 2]}-{ones[unit - 1]}"
    for answer in (spelled, f"There are {spelled} of them.", str(count), f"\\boxed{{{count}}}"):
        yield {"count": count}, answer, True
        yield {"count": count + 1}, answer, False
    yield {"count": 12 * (unit + 1)}, f"{('two', *ones[2:], 'ten')[unit - 1]} dozen", True
    yield {"count": count}, f"{count} or {count + 1}", False
    yield {"count": count}, f"half of {count}", False
    yield {"count": count}, f"at least {count}", False
    yield {"count": count}, f"{count}%", False
    yield {"count": unit}, f"{count} plus {unit}", False


def _near_numbers(draw: random.Random) -> Iterator[tuple[object, str, bool]]:
    n = draw.randrange(11, 99)
    yield {"value": n * 100_000}, f"{n / 10} million", True
    yield {"value": n * 1_000}, f"{n}k", True
    yield {"value": n / 100}, f"{n}%", True
    yield {"value": n}, f"{n}%", True
    yield {"value": n}, str(round(n * 1.04, 2)), True
    yield {"value": n}, str(round(n * 1.07, 2)), False
    yield {"value": 1900 + n}, str(1901 + n), False
    yield {"value": n * 100_000}, f"{n / 10} thousand", False


def _burning(draw: random.Random) -> Iterator[tuple[object, str, bool]]:
    """Yield alkanes: their formulas, and the equations of how they burn."""
    carbon = 2 * draw.randrange(1, 8)
    hydrogen = 2 * carbon + 2
    oxygen = carbon + hydrogen / 4
    fuel = f"C{carbon}H{hydrogen}"
    equation = f"2{fuel} + {int(2 * oxygen)}O2 -> {2 * carbon}CO2 + {hydrogen}H2O"
    halved = f"{fuel} + {oxygen} O2 -> {carbon}CO2 + {hydrogen // 2}H2O"
    yield equation, halved, True
    yield equation, f"It burns as follows: {halved}, which gives heat.", True
    yield equation, equation.replace("->", "\\rightarrow"), True
    yield equation, equation.replace(f"{2 * carbon}CO2", f"{2 * carbon + 1}CO2"), False
    yield equation, equation.replace("CO2", "CO"), False
    yield fuel, f"{fuel} (an alkane)", True
    yield fuel, f"The formula is {fuel}.", True
    yield fuel, f"C_{{{carbon}}}H_{{{hydrogen}}}", True
    yield fuel, f"C{carbon}H{hydrogen - 2}", False
    yield fuel, f"{fuel} or C{carbon}H{hydrogen - 2}", False


def _references(draw: random.Random) -> Iterator[tuple[object, str, bool]]:
    right, wrong = draw.sample(("Paris", "Oslo", "Lima", "Cairo", "Accra", "Quito", "Hanoi"), 2)
    for answer in (
        f"{right}",
        f"The answer is {right}.",
        f"The capital is {right}.",
        f"It is {right}, not {wrong}.",
        f"{right} is the capital.",
        f"Answer: {right}",
    ):
        yield {"reference": right}, answer, True
        yield {"reference": wrong}, answer, False
    yield {"reference": right}, f"It is {wrong}. No, it is {right}.", True
    yield {"reference": wrong}, f"It is {wrong}. No, it is {right}.", False
    year = draw.randrange(1000, 2000)
    for era in ("AD", "CE", "n. Chr.", "ap. J.-C."):
        yield {"reference": str(year)}, f"{year} {era}", True
    for era in ("BC", "v. Chr.", "av. J.-C.", "до н. э."):
        yield {"reference": str(year)}, f"{year} {era}", False
        yield {"reference": f"{year} BC"}, f"{year} {era}", True
    yield {"reference": str(year)}, f"by {year}", False
    yield {"reference": right}, f"It is not {right}.", False
    yield {"reference": right}, f"{right} or {wrong}", False
    yield {"reference": right}, f"{right}, {wrong}", False
    yield {"reference": right}, f"{right} is wrong.", False
    yield {"reference": right}, f"Is it {right}?", False


def _ideas(draw: random.Random) -> Iterator[tuple[object, str, bool]]:
    plant, other_plant = draw.sample(("cactus", "oak", "rose", "fern", "moss", "lily"), 2)
    scheme = {"ideas": [{"any_of": ["stores water"]}, {"any_of": [plant]}]}
    yield scheme, f"The {plant} stores the water.", True
    yield scheme, f"Water is stored in the {plant}.", True
    yield scheme, f"In dry places the {plant} stores a lot of water.", True
    yield scheme, f"The {other_plant} stores water.", False
    yield scheme, f"The {plant} does not store water.", False
    yield (
        scheme,
        f"{plant}, {other_plant}, pine: stores water, makes seeds, eats flies, climbs walls",
        False,
    )
    yield scheme, f"It is the {plant} or the {other_plant}; it stores water or makes seeds.", False


def _boxes_of_things(draw: random.Random) -> Iterator[tuple[object, str, bool]]:
    x = draw.randrange(0, 90)
    y = draw.randrange(0, 90)
    right = x + draw.randrange(20, 200)
    low = y + draw.randrange(20, 200)
    reference = {"box": [x, y, right, low]}
    for answer in (
        f"[{x}, {y}, {right}, {low}]",
        f"({x},{y}),({right},{low})",
        f"[[{x},{y}],[{right},{low}]]",
        f'{{"x1":{x},"y1":{y},"x2":{right},"y2":{low}}}',
        f'{{"xmin":{x},"ymin":{y},"xmax":{right},"ymax":{low}}}',
        f'{{"x":{x},"y":{y},"width":{right - x},"height":{low - y}}}',
        f'[{{"bbox_2d": [{x}, {y}, {right}, {low}], "label": "lamp"}}]',
    ):
        yield reference, answer, True
        yield {"box": [x + 300, y, right + 300, low]}, answer, False
    yield reference, f"[{x}, {y}, {right}, {low}] or [0, 0, 9, 9]", False


OTHERS = {
    ("choice", "one letter"): _one_letter,
    ("choice", "several letters"): _letters,
    ("quantity", "ways of writing"): _quantities,
    ("counting", "words"): _counts,
    ("relaxed_number", "scales and years"): _near_numbers,
    ("chemistry", "formulas and equations"): _burning,
    ("short_answer", "references"): _references,
    ("short_answer", "ideas"): _ideas,
    ("grounding", "forms of boxes"): _boxes_of_things,
}
