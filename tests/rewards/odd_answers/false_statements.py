"""Replies to questions that ask for the false statement or the odd one out; B is right."""

from typing import Any

STATEMENTS = """
A) Ice floats.
B) The sun is a planet.
C) Iron rusts.
D) Salt dissolves in water."""
NOT_TRUE = "Which of these statements is NOT true?" + STATEMENTS
FALSE = "Which of these statements is false?" + STATEMENTS
EXCEPT = "All of the following are true EXCEPT:" + STATEMENTS
INCORRECT = "Which of these statements is incorrect?" + STATEMENTS
NO_MAMMAL = "Which of these is not a mammal? A) whale B) shark C) bat D) dog"
TRUE = "Which of these statements is true?" + STATEMENTS

REPLIES_ABOUT_TRUTH = (
    ("B", 1),
    ("B is not true.", 1),
    ("B is false.", 1),
    ("Statement B is false because the sun is a star.", 1),
    ("The false statement is B.", 1),
    ("The statement that is not true is B.", 1),
    ("A, C and D are true, so B is the answer.", 1),
    ("A is true. C is true. D is true. B is false.", 1),
    ("The answer is B.", 1),
    ("Option B is incorrect.", 1),
    ("The incorrect statement is B.", 1),
    ("B isn't true.", 1),
    ("The correct answer is B.", 1),
    ("A, C and D are true statements. The answer is (B).", 1),
    ("\\boxed{B}", 1),
    ("B) The sun is a planet.", 1),
    ("B is true.", 0),
    ("The answer is not B.", 0),
    ("Statement B is true because it is known.", 0),
    ("A is false.", 0),
    ("A is not true.", 0),
    ("The true statement is B.", 0),
    ("A", 0),
    ("The false statement is A.", 0),
    ("B is a true statement.", 0),
    ("A, B and C are true.", 0),
    ("A is false; B is true.", 0),
    ("B is true, so the answer is A.", 0),
)
REPLIES_ABOUT_KIND = (
    ("B", 1),
    ("B is not a mammal.", 1),
    ("B is a mammal.", 0),
    ("A, C and D are mammals, so the answer is B.", 1),
    ("A is not a mammal.", 0),
    ("B isn't a mammal, it is a fish.", 1),
    ("The answer is B because sharks are not mammals.", 1),
    ("The answer is not B.", 0),
    ("B is a fish.", 1),
)
REPLIES_TO_THE_USUAL_QUESTION = (
    ("B is true.", 1),
    ("B is not true.", 0),
    ("A and C are false, so B.", 1),
    ("B is false.", 0),
    ("The true statement is B.", 1),
)

_BY_PROMPT = (
    *((prompt, REPLIES_ABOUT_TRUTH) for prompt in (NOT_TRUE, FALSE, EXCEPT, INCORRECT)),
    (NO_MAMMAL, REPLIES_ABOUT_KIND),
    (TRUE, REPLIES_TO_THE_USUAL_QUESTION),
)
ROWS: list[tuple[Any, ...]] = [
    ("B", reply, worth, {}, prompt) for prompt, replies in _BY_PROMPT for reply, worth in replies
]
