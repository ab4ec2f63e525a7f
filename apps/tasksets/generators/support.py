"""Messages of a shop's customers in everyday English, for language models that can already
write.
"""

from collections.abc import Iterator

from apps.tasksets.messages import Content
from apps.tasksets.rows import TaskRow, draw_distinct

INSTRUCTION = "You work for a shop. Reply to the customer politely in one or two short sentences."
PRODUCTS = (
    "kettle",
    "lamp",
    "chair",
    "phone",
    "radio",
    "bicycle",
    "clock",
    "printer",
    "jacket",
    "camera",
    "toaster",
    "table",
    "backpack",
    "blanket",
    "blender",
    "guitar",
    "heater",
    "helmet",
    "keyboard",
    "mirror",
    "oven",
    "pillow",
    "tent",
    "watch",
)
PROBLEMS = {
    "broken": "My {product} stopped working after a week.",
    "late": "My {product} still has not arrived. Where is it?",
    "lost": "The tracking page says that my {product} was delivered, but it is not here.",
    "damaged": "The box was open and my {product} is scratched.",
    "wrong item": "I ordered a {product} in blue and you sent me a red one.",
    "missing part": "A part of my {product} was missing from the box.",
    "noise": "The {product} I bought from you makes a strange noise.",
    "charged twice": "I was charged twice for the same {product}!",
    "refund": "I sent the {product} back and still wait for my money.",
    "return": "Can I return the {product} if I do not like it?",
    "exchange": "The {product} is too small for me. Can I get a bigger one?",
    "manual": "I do not understand how to set up my {product}.",
    "warranty": "Is a broken {product} covered by the warranty?",
    "cancel": "Please cancel my order of the {product}, I chose the wrong one.",
    "cleaning": "How do I clean the {product} without damaging it?",
    "no reply": "I wrote to you twice about my {product} and nobody answers.",
}
OPENINGS = ("", "Hello. ", "I am really disappointed. ")


def generate(size: int, seed: int) -> Iterator[TaskRow]:
    """Yield different messages; the answer is {"product": what the reply must be about}."""
    topics = tuple(PROBLEMS)
    space = len(PRODUCTS) * len(topics) * len(OPENINGS)
    for number in draw_distinct(space, size, seed):
        quotient, opening = divmod(number, len(OPENINGS))
        kind, topic = divmod(quotient, len(topics))
        product = PRODUCTS[kind]
        problem = topics[topic]
        message = OPENINGS[opening] + PROBLEMS[problem].format(product=product)
        prompt: list[dict[str, Content]] = [
            {"role": "system", "content": INSTRUCTION},
            {"role": "user", "content": message},
        ]
        yield TaskRow(prompt, {"product": product}, {"problem": problem})
