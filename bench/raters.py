"""Eight simulated raters: lenient and strict ones, one who avoids extremes, a careless one.

They judge by the strict rule of the tone task, each with its own bias. `truth` is that rule's
value, 0 to 1.
"""

import random
from dataclasses import dataclass

from apps.tasksets.tone_language import SENTENCES, WELL_FORMED_PLACES


@dataclass(frozen=True)
class Rater:
    """A simulated rater.

    `kindness` is added to the stars, `breadth` stretches them around three, `noise` is their
    deviation in stars; with chance `slip` they are one off, with chance `careless` they are random.
    """

    name: str
    kindness: float = 0.0
    breadth: float = 1.0
    noise: float = 0.0
    slip: float = 0.25
    careless: float = 0.0

    def stars(self, truth: float, chance: random.Random) -> int:
        if chance.random() < self.careless:
            return chance.randint(1, 5)
        stars = round(
            3 + self.breadth * (4 * truth - 2) + self.kindness + chance.gauss(0, self.noise)
        )
        if chance.random() < self.slip:
            stars += chance.choice((-1, 1))
        return min(5, max(1, stars))

    def rewrite(self, subject: str, chance: random.Random) -> str:
        """Return a good reply about this object; one in ten of a careless rater's is flat."""
        manner = "flat" if chance.random() < max(0.1, self.careless) else "polite"
        places = chance.choice(WELL_FORMED_PLACES)
        return " ".join(
            chance.choice(SENTENCES[place][manner]).format(object=subject) for place in places
        )


RATERS = (
    Rater("anna"),
    Rater("boris", kindness=0.5),
    Rater("chen", kindness=-0.5),
    Rater("dilek", breadth=0.75, slip=0.15),
    Rater("emeka", noise=0.5, slip=0.1),
    Rater("freya", kindness=0.3, noise=0.3),
    Rater("goran", kindness=-0.3, slip=0.35),
    Rater("hana", careless=0.5),
)
