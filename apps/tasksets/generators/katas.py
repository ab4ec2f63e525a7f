"""Small programs and functions to write, with parameters; their hidden tests are made by code of
ours that is right.

Half of them ask for a function in Python, half for a program in any language that reads its input
and prints. `generate_untested` draws the same tasks without tests, but with what tests can be made
of: a program that draws inputs, and ten submissions, most of them right (`manage.py taskset tests`
makes them).
"""

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from apps.tasksets.rows import TaskRow, draw_distinct, user_message

SHOWN = 2
HIDDEN = 10  # calls that the prompt tells, and that it does not
PARAMETERS = range(2, 10)
VARIANTS = 20  # of each kata with each parameter: other examples, other tests
SUBMISSIONS = 10
WRONG = (0, 1, 1, 4)  # submissions of ten that are wrong; with four no task is admitted


@dataclass(frozen=True)
class Kata:
    """`words` say what is wanted of `numbers`, a `word` or a `number`; `code` is the body of the
    function, K the parameter.
    """

    name: str
    takes: str
    words: str
    code: str


KATAS = (
    Kata(
        "total_above",
        "numbers",
        "the sum of the numbers that are greater than K",
        "return sum(n for n in numbers if n > K)",
    ),
    Kata(
        "count_multiples",
        "numbers",
        "how many of the numbers are multiples of K",
        "return sum(n % K == 0 for n in numbers)",
    ),
    Kata(
        "every_nth",
        "numbers",
        "the first of the numbers, and then each one K places further on",
        "return numbers[::K]",
    ),
    Kata(
        "rotated",
        "numbers",
        "the numbers, moved K places to the left, those that fall out put behind",
        "K_ = K % len(numbers)\n    return numbers[K_:] + numbers[:K_]",
    ),
    Kata(
        "clamped",
        "numbers",
        "the numbers, those below 0 made 0 and those above K made K",
        "return [min(max(n, 0), K) for n in numbers]",
    ),
    Kata(
        "largest_window",
        "numbers",
        "the largest sum of K numbers that follow each other (of all where there are fewer)",
        "k = min(K, len(numbers))\n    return max(sum(numbers[i : i + k]) for i in"
        " range(len(numbers) - k + 1))",
    ),
    Kata(
        "remainders",
        "numbers",
        "the different remainders of the numbers divided by K, in ascending order",
        "return sorted({n % K for n in numbers})",
    ),
    Kata(
        "smallest_few",
        "numbers",
        "the K smallest numbers (all where there are fewer), in ascending order",
        "return sorted(numbers)[:K]",
    ),
    Kata(
        "close_pairs",
        "numbers",
        "how many pairs of the numbers, at different places, differ by less than K",
        "return sum(abs(a - b) < K for i, a in enumerate(numbers) for b in numbers[:i])",
    ),
    Kata(
        "shifted_word",
        "word",
        "the word with each letter moved K places on in the alphabet, after z comes a",
        "return ''.join(chr((ord(c) - 97 + K) % 26 + 97) for c in word)",
    ),
    Kata(
        "repeated_letters",
        "word",
        "the word with each letter written K times",
        "return ''.join(c * K for c in word)",
    ),
    Kata(
        "first_letters",
        "word",
        "the letters of the word, each once, in the alphabet's order, the first K of them",
        "return ''.join(sorted(set(word))[:K])",
    ),
    Kata(
        "chunks",
        "word",
        "the word cut into pieces of K letters, with a - between them; the last may be shorter",
        "return '-'.join(word[i : i + K] for i in range(0, len(word), K))",
    ),
    Kata(
        "digits_in_base",
        "number",
        "the digits of the number in base K, the most significant first, without signs between"
        " them",
        "found = ''\n    while number:\n        found = str(number % K) + found\n        number //="
        " K\n    return found or '0'",
    ),
    Kata(
        "steps_to_one",
        "number",
        "how many steps it takes to bring the number to 1 or below, dividing by K and rounding down"
        " at each",
        "steps = 0\n    while number > 1:\n        number //= K\n        steps += 1\n    return"
        " steps",
    ),
    Kata(
        "sum_of_powers",
        "number",
        "the sum of the decimal digits of the number, each to the power of K",
        "return sum(int(d) ** K for d in str(number))",
    ),
)
SPACE = len(KATAS) * len(PARAMETERS) * VARIANTS
DRAWS = {
    "numbers": "[draw.randint(-9, 30) for _ in range(draw.randint(2, 9))]",
    "word": "''.join(draw.choice('aabcdeeioxyz') for _ in range(draw.randint(2, 12)))",
    "number": "draw.randint(0, 999)",
}
READS = {
    "numbers": "list(map(int, input().split()))",
    "word": "input().strip()",
    "number": "int(input())",
}
GIVEN = {
    "numbers": "a line of whole numbers with blanks between them",
    "word": "a line with one word",
    "number": "a line with a number",
}
SENT: dict[str, Callable[[Any], str]] = {
    "numbers": lambda value: " ".join(map(str, value)),
    "word": str,
    "number": str,
}


@dataclass(frozen=True)
class Exercise:
    """A kata with its parameter and a number of its own; `is_function`: or a program that reads and
    prints.
    """

    kata: Kata
    parameter: int
    number: int

    @property
    def is_function(self) -> bool:
        return self.number % 2 == 0

    @property
    def name(self) -> str:
        return f"{self.kata.name}_{self.number}"

    @property
    def right(self) -> str:
        """Return a right function, in Python."""
        body = self.kata.code.replace("K_", "moved").replace("K", str(self.parameter))
        return f"def {self.name}({self.kata.takes}):\n    {body}\n"

    def submission(self, is_right: bool) -> str:
        """Return a whole answer, right or with a mistake that most inputs show."""
        function = self.right if is_right else self.right.replace("return ", "return 3 * ")
        if self.is_function:
            return function
        printed = "print(*said) if isinstance(said, list) else print(said)"
        return f"{function}\nsaid = {self.name}({READS[self.kata.takes]})\n{printed}\n"

    @property
    def drawing(self) -> str:
        """Return a program that reads a seed and writes an input.

        The input is the arguments as JSON, or what the program reads.
        """
        written = (
            "json.dumps([given])"
            if self.is_function
            else "' '.join(map(str, given)) if isinstance(given, list) else given"
        )
        return (
            "import json, random\ndraw = random.Random(input())\ngiven ="
            f" {DRAWS[self.kata.takes]}\nprint({written})\n"
        )

    def calls(self) -> list[tuple[Any, Any]]:
        """Return different inputs and what is right for each."""
        draw = random.Random(f"{self.name} {self.parameter}")
        function = _define_function(self.right, self.name)
        cases: dict[str, tuple[Any, Any]] = {}
        while len(cases) < SHOWN + HIDDEN:
            expression = DRAWS[self.kata.takes]
            argument = eval(expression, {"draw": draw})  # noqa: S307  (a constant of this file)
            cases[json.dumps(argument)] = (argument, function(argument))
        return list(cases.values())

    @property
    def prompt(self) -> str:
        words = self.kata.words.replace("K", str(self.parameter))
        examples = "\n".join(self._example(*call) for call in self.calls()[:SHOWN])
        if self.is_function:
            question = (
                f"Write a function {self.name}({self.kata.takes}) in Python that returns {words}."
            )
        else:
            question = (
                f"Program {self.number}. It reads {GIVEN[self.kata.takes]} and prints {words};"
                " several with blanks between them."
            )
        return f"{question}\n{examples}\nGive the code in one fenced block."

    def _example(self, argument: Any, expected: Any) -> str:
        if self.is_function:
            return f"{self.name}({argument!r}) is {expected!r}"
        return f"for {SENT[self.kata.takes](argument)} it prints {_printed(expected)}"

    def answer(self, calls: list[tuple[Any, Any]]) -> dict[str, Any]:
        if self.is_function:
            tests = [{"args": [argument], "value": expected} for argument, expected in calls]
            return {"function": self.name, "language": "python", "tests": tests}
        return {
            "tests": [
                {
                    "stdin": f"{SENT[self.kata.takes](argument)}\n",
                    "stdout": f"{_printed(expected)}\n",
                }
                for argument, expected in calls
            ]
        }


def generate(size: int, seed: int) -> Iterator[TaskRow]:
    """Yield different katas.

    The answer has the tests of the scorer `code`, none of them told in the prompt.
    """
    for exercise in _draw_exercises(size, seed):
        yield TaskRow(
            user_message(exercise.prompt),
            exercise.answer(exercise.calls()[SHOWN:]),
            {"kata": exercise.kata.name},
            domain="code",
        )


def generate_untested(size: int, seed: int) -> Iterator[TaskRow]:
    """Yield the same without tests.

    `meta` has `generators` and `submissions`, what apps.rewards.code.making makes them of.
    """
    for exercise in _draw_exercises(size, seed):
        wrong = random.Random(exercise.number).choice(WRONG)
        submissions = [
            {"language": "python", "code": exercise.submission(place >= wrong)}
            for place in range(SUBMISSIONS)
        ]
        answer = {"function": exercise.name, "language": "python"} if exercise.is_function else {}
        meta = {
            "kata": exercise.kata.name,
            "generators": [exercise.drawing],
            "submissions": submissions,
        }
        yield TaskRow(user_message(exercise.prompt), answer, meta, domain="code")


def _draw_exercises(size: int, seed: int) -> Iterator[Exercise]:
    for number in draw_distinct(SPACE, size, seed):
        quotient, kata = divmod(number, len(KATAS))
        yield Exercise(
            KATAS[kata],
            PARAMETERS[quotient % len(PARAMETERS)],
            number // len(KATAS) + kata * (SPACE // len(KATAS)),
        )


def _define_function(code: str, name: str) -> Callable:
    """Return the function that the code defines; the code is a constant of this file."""
    names: dict[str, Any] = {}
    exec(code, names)  # noqa: S102  (a constant of this file)
    return names[name]


def _printed(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)
