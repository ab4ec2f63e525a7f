"""A calculator as a tool, which the policy may call before it answers."""

import ast
import operator
import random
import re
from collections.abc import Callable
from typing import ClassVar

from apps.environments.library.protocol import Observation, Step

MAX_VALUE = 10**12
MAX_EXPRESSION_LENGTH = 80  # characters of an expression
OPERATIONS: dict[type, Callable] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
CALL = re.compile(r"calc\(([^()\n]*(?:\([^()\n]*\)[^()\n]*)*)\)")
ANSWER = re.compile(r"answer\s{0,20}:?\s{0,20}(-?[0-9]{1,15})(?![0-9])")


class Calculator:
    """A sum of products too long for mental arithmetic.

    `calc(12*34)` is answered by the tool; `answer 5` ends the episode and earns 1 if right.
    Options: `terms` (how many products), `max_factor` (the largest factor).
    """

    title: ClassVar = "Calculator"
    reward_low: ClassVar = 0.0
    reward_high: ClassVar = 1.0
    turn_limit: ClassVar = 6
    turn_s: ClassVar = 2.0

    def reset(self, seed: int, options: dict) -> Observation:
        terms = options.get("terms", 2)
        largest = options.get("max_factor", 99)
        if not (
            isinstance(terms, int)
            and 1 <= terms <= 8
            and isinstance(largest, int)
            and 2 <= largest <= 10_000
        ):
            raise ValueError(
                f"terms must be from 1 to 8 and most from 2 to 10000, not {terms!r} and {largest!r}"
            )
        draw = random.Random(seed)
        question = "+".join(
            f"{draw.randint(2, largest)}*{draw.randint(2, largest)}" for _ in range(terms)
        )
        self.expected = evaluate_integers(question)
        return question

    def step(self, action: str) -> Step:
        if answer := ANSWER.search(action):
            is_right = int(answer[1]) == self.expected
            return Step("right" if is_right else "wrong", float(is_right), True)
        if call := CALL.search(action):
            return Step([{"role": "tool", "content": _result(call[1])}], 0.0, False)
        return Step("call calc(...) or say answer", 0.0, False)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""


def _result(expression: str) -> str:
    try:
        return str(evaluate_integers(expression))
    except (ValueError, ZeroDivisionError) as error:
        return f"error: {error}"


def evaluate_integers(expression: str) -> int:
    """Evaluate whole numbers with + - * // % and brackets. Raises ValueError, ZeroDivisionError."""
    if len(expression) > MAX_EXPRESSION_LENGTH:
        raise ValueError(f"an expression may have {MAX_EXPRESSION_LENGTH} characters")
    try:
        return _value(ast.parse(expression.strip(), mode="eval").body)
    except (SyntaxError, RecursionError, MemoryError):
        raise ValueError("that is no expression") from None


def _value(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        result = node.value
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        result = -_value(node.operand)
    elif isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
        result = OPERATIONS[type(node.op)](_value(node.left), _value(node.right))
    else:
        raise ValueError("only whole numbers, + - * // % and brackets")
    if abs(result) > MAX_VALUE:
        raise ValueError("too large")
    return result
