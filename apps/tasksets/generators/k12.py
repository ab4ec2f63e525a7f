"""School questions of five subjects, their domains: choices, quantities with units, chemistry,
short answers and mathematics.

`meta` says the grade, the subject, and which scorer judges the question; a run gives each domain
the scorers of its forms.
"""

import random
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction

from apps.tasksets.rows import TaskRow, draw_distinct, said_alone, user_message

SUBJECTS = ("biology", "chemistry", "physics", "maths", "language")
GRADES = {
    "biology": (5, 6),
    "chemistry": (9, 10),
    "physics": (7, 8, 9),
    "maths": (6,),
    "language": (3, 4),
}  # there are
BEGINS = re.compile(r"Question [0-9]{1,9}, ([a-z]{1,20}), grade ([0-9]{1,2})\. ")
SPACE = 500_000
ORGANS = {
    "heart": "pumps blood",
    "lungs": "take in oxygen",
    "kidneys": "filter blood",
    "liver": "breaks down poisons",
    "stomach": "digests food",
    "skin": "protects the body",
    "brain": "controls the body",
    "bones": "hold the body upright",
}
FUELS = {
    "methane": (1, 4),
    "ethane": (2, 6),
    "propane": (3, 8),
    "butane": (4, 10),
    "pentane": (5, 12),
    "hexane": (6, 14),
    "ethene": (2, 4),
    "propene": (3, 6),
    "benzene": (6, 6),
    "ethyne": (2, 2),
}
WORDS = {
    "quick": "fast",
    "begin": "start",
    "silent": "quiet",
    "brave": "courageous",
    "huge": "enormous",
    "glad": "happy",
    "reply": "answer",
    "wealthy": "rich",
    "ill": "sick",
    "shut": "close",
}


def generate(size: int, seed: int) -> Iterator[TaskRow]:
    """Yield the subjects in turn.

    Each question has its number, so that no two prompts are the same.
    """
    for number in draw_distinct(SPACE, size, seed):
        yield _build_task(number)


def _build_task(number: int) -> TaskRow:
    subject = SUBJECTS[number % len(SUBJECTS)]
    question, answer, scorer, grade = OF_SUBJECT[subject](random.Random(number))
    prompt = f"Question {number}, {subject}, grade {grade}. {question}"
    return TaskRow(
        user_message(prompt),
        answer,
        {"grade": grade, "subject": subject, "scorer": scorer},
        domain=subject,
    )


def read_grade(row: TaskRow) -> int | None:
    """Return the school grade; None for a task of another kind."""
    match = BEGINS.match(said_alone(row))
    if match is None or not match[1] == row.domain == row.meta.get("subject"):
        return None
    grade = int(match[2])
    return grade if grade in GRADES.get(match[1], ()) else None


def harder(row: TaskRow, draw: random.Random) -> TaskRow | None:
    """Return a question of the subject's next grade; None where there is none."""
    grade = read_grade(row)
    higher = (
        []
        if grade is None
        else [higher_grade for higher_grade in GRADES[row.domain] if higher_grade > grade]
    )
    while higher:
        task = _build_task(
            draw.randrange(SPACE // len(SUBJECTS)) * len(SUBJECTS) + SUBJECTS.index(row.domain)
        )
        if task.meta["grade"] == higher[0]:
            return task
    return None


Question = tuple[str, dict, str, int]


def _choices(draw: random.Random, right: str, wrong: Sequence[str]) -> tuple[str, dict]:
    choices = [right, *draw.sample(sorted(set(wrong) - {right}), 3)]
    draw.shuffle(choices)
    listing = " ".join(f"({'ABCD'[place]}) {choice}" for place, choice in enumerate(choices))
    return listing, {"value": "ABCD"[choices.index(right)], "choices": choices}


def _biology(draw: random.Random) -> Question:
    organ = draw.choice(list(ORGANS))
    if draw.random() < 0.5:
        listing, answer = _choices(draw, ORGANS[organ], list(ORGANS.values()))
        return (
            f"What is the main task of the human {organ}? Answer with the letter. {listing}",
            answer,
            "choice",
            5,
        )
    ideas = [{"any_of": [ORGANS[organ]], "points": 2}, {"any_of": [organ], "points": 1}]
    scheme = {"ideas": ideas, "reference": [f"The {organ} {ORGANS[organ]}."]}
    return (
        f"Which is the main task of the human {organ}? Answer in one sentence, with its name.",
        scheme,
        "short_answer",
        6,
    )


def _chemistry(draw: random.Random) -> Question:
    fuel = draw.choice(list(FUELS))
    carbon, hydrogen = FUELS[fuel]
    formula = f"{_element('C', carbon)}{_element('H', hydrogen)}"
    if draw.random() < 0.4:
        return f"What is the formula of {fuel}?", {"value": formula}, "chemistry", 9
    fourths = 4 * carbon + hydrogen  # of an O2 for each molecule
    scale = 1 if fourths % 4 == 0 else 2
    numbers = [scale, fourths * scale // 4, carbon * scale, hydrogen * scale // 2]
    terms = [
        f"{'' if times == 1 else times}{name}"
        for times, name in zip(numbers, (formula, "O2", "CO2", "H2O"), strict=True)
    ]
    return (
        f"Balance how {fuel} burns.",
        {"value": f"{terms[0]} + {terms[1]} -> {terms[2]} + {terms[3]}"},
        "chemistry",
        10,
    )


def _element(name: str, count: int) -> str:
    return name if count == 1 else f"{name}{count}"


def _physics(draw: random.Random) -> Question:
    first = draw.randrange(2, 60)
    second = draw.randrange(2, 40)
    match draw.randrange(3):
        case 0:
            ask = f"A car covers {first * second} m in {second} s. What is its speed?"
            return ask, {"value": first, "unit": "m/s"}, "quantity", 7
        case 1:
            ask = f"Which force gives {first} kg an acceleration of {second} m/s^2?"
            return ask, {"value": first * second, "unit": "N"}, "quantity", 8
    ask = f"Which current flows through {second} ohms at {first * second} V?"
    return ask, {"value": first, "unit": "A"}, "quantity", 9


def _maths(draw: random.Random) -> Question:
    top = draw.randrange(1, 20)
    bottom = draw.randrange(2, 20)
    times = draw.randrange(2, 30)
    return (
        f"What is {times} times {top}/{bottom}?",
        {"value": str(Fraction(times * top, bottom))},
        "math",
        6,
    )


def _language(draw: random.Random) -> Question:
    word = draw.choice(list(WORDS))
    if draw.random() < 0.5:
        listing, answer = _choices(draw, WORDS[word], list(WORDS.values()))
        return (
            f'Which word means the same as "{word}"? Answer with the letter. {listing}',
            answer,
            "choice",
            3,
        )
    right = draw.sample(list(WORDS), 2)
    wrong = draw.sample(["table", "river", "cloud", "paper", "window"], 2)
    choices = [*right, *wrong]
    draw.shuffle(choices)
    means = " or ".join(f'"{WORDS[other_word]}"' for other_word in right)
    listing = " ".join(f"({'ABCD'[place]}) {choice}" for place, choice in enumerate(choices))
    letters = sorted("ABCD"[choices.index(other_word)] for other_word in right)
    return (
        f"Which two words mean {means}? Answer with both letters. {listing}",
        {"value": letters, "choices": choices},
        "choice",
        4,
    )


OF_SUBJECT = {
    "biology": _biology,
    "chemistry": _chemistry,
    "physics": _physics,
    "maths": _maths,
    "language": _language,
}
