"""What a form of decision is: it reads a person's answer strictly, and says what the answer is worth."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from apps.runs.people import People

Answer = dict[str, Any]


class BadAnswer(ValueError):
    """The answer cannot be taken. `problems`: for each field, words that say what is wrong and what is right."""

    def __init__(self, problems: Mapping[str, str]):
        super().__init__("; ".join(f"{field}: {words}" for field, words in problems.items()))
        self.problems = dict(problems)


@dataclass(frozen=True)
class Asked:
    """What the person was looking at: rollout ids as shown, the run's plan, and of a single rollout its text and turns."""

    shown: Sequence[int]
    people: People
    text: str | None = None
    turns: int | None = None


class Form(ABC):
    """One kind of decision. Pure: it knows numbers and words, no rows."""

    name: ClassVar[str]
    fields: ClassVar[frozenset[str]]  # that an answer may have
    fewest: ClassVar[int] = 1  # rollouts looked at
    most: ClassVar[int] = 1

    def parse(
        self, raw: object, shown: Sequence[int], people: People, *, text: str | None = None, turns: int | None = None
    ) -> Answer:
        """The answer in its one canonical spelling; parsing that again gives the same. Raises BadAnswer.

        `text` is what the characters of `spans` count in, `turns` how many turns the policy took; the forms that need one say so
        with a ValueError, as all do about a wrong number of rollouts: that is the caller's mistake, not the person's.
        """
        self._check(shown)
        if not isinstance(raw, dict):
            raise BadAnswer({"answer": "must be an object with named fields"})
        unknown = sorted(str(key) for key in raw if key not in self.fields)
        if unknown:
            allowed = ", ".join(sorted(self.fields)) or "none"
            raise BadAnswer({field[:100]: f"is no field of the form {self.name}; it has {allowed}" for field in unknown[:10]})
        problems: dict[str, str] = {}
        answer = self.read(raw, Asked(shown, people, text, turns), problems)
        if problems:
            raise BadAnswer(problems)
        return answer

    def _check(self, shown: Sequence[int]) -> None:
        if not self.fewest <= len(shown) <= self.most or len(set(shown)) < len(shown):
            right = f"{self.fewest}" if self.fewest == self.most else f"{self.fewest} to {self.most}"
            raise ValueError(f"the form {self.name} looks at {right} different rollouts, not at {list(shown)}")

    @abstractmethod
    def read(self, raw: Mapping[str, Any], asked: Asked, problems: dict[str, str]) -> Answer:
        """The canonical answer; what is wrong goes into `problems` by field, and then the result is not used."""

    def values(self, answer: Answer, shown: Sequence[int], people: People) -> dict[int, float]:
        """What a canonical answer says each rollout is worth, 0 (worst) to 1; a rollout that it says nothing about is absent."""
        return {}
