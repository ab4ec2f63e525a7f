"""Short messages of customers about an object with a problem; a polite reply is wanted."""

from collections.abc import Iterator

from apps.tasksets.rows import TaskRow, draw_distinct, user_message
from apps.tasksets.tone_language import MESSAGES, OBJECTS, PROBLEMS


def generate(size: int, seed: int) -> Iterator[TaskRow]:
    """Yield different messages; the answer is {"object": what the reply must be about}."""
    for number in draw_distinct(len(MESSAGES) * len(OBJECTS) * len(PROBLEMS), size, seed):
        quotient, message = divmod(number, len(MESSAGES))
        kind, problem = divmod(quotient, len(PROBLEMS))
        names = {"object": OBJECTS[kind], "problem": PROBLEMS[problem]}
        prompt = user_message(MESSAGES[message].format(**names))
        yield TaskRow(prompt, {"object": names["object"]}, {"problem": names["problem"]})
