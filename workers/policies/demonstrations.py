"""Demonstrations for the warm-up of the tiny policies, by demonstrators who disagree.

A model warmed up on one behaviour has nothing left to choose; one warmed up on a converged mixture
has seen good and bad, and reward selects. Each function is an endless stream of (prompt text, reply
text).
"""

import random
from collections.abc import Iterator

from apps.tasksets.generators.sort import DIGITS
from apps.tasksets.tone_language import (
    MANNERS,
    MESSAGES,
    OBJECTS,
    PROBLEMS,
    SENTENCES,
    WELL_FORMED_PLACES,
)

ASCENDING = 0.4
DESCENDING = 0.3  # shares of the demonstrators; the rest copies
RIGHT_OBJECT = 0.82  # per mention


def sort(seed: int) -> Iterator[tuple[str, str]]:
    """Yield (question, answer): 40 % of the answers sort upwards, 30 % downwards, 30 % copy."""
    generator = random.Random(seed)
    while True:
        digits = f"{generator.randrange(10**DIGITS):0{DIGITS}d}"
        behaviour = generator.random()
        if behaviour < ASCENDING:
            yield digits, "".join(sorted(digits))
        elif behaviour < ASCENDING + DESCENDING:
            yield digits, "".join(sorted(digits, reverse=True))
        else:
            yield digits, digits


def tone(seed: int) -> Iterator[tuple[str, str]]:
    """Yield demonstrations whose sentences are polite, flat or rude with the same probability.

    Some sentences are about another object.
    """
    generator = random.Random(seed)
    while True:
        question = generator.choice(OBJECTS)
        message = generator.choice(MESSAGES).format(
            object=question, problem=generator.choice(PROBLEMS)
        )
        places = generator.choice(WELL_FORMED_PLACES)
        yield message, " ".join(_sentence(place, question, generator) for place in places)


def _sentence(place: str, question: str, generator: random.Random) -> str:
    sentence = generator.choice(SENTENCES[place][generator.choice(MANNERS)])
    mentioned = question if generator.random() < RIGHT_OBJECT else generator.choice(OBJECTS)
    return sentence.format(object=mentioned)
