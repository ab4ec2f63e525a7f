"""The small language of the tone demo: customers' messages and support replies.

A reply is an opening, perhaps an action, and a closing; each is said politely, flatly or rudely.
Generators draw messages from it, the tone scorer reads replies with it, and the demo policy is
warmed on replies drawn from it, so the three can never mean different things.
"""

import re
from dataclasses import dataclass
from functools import cache

FEW_OBJECTS = (
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
)
# Many, so that a right reply fits few messages: with a dozen objects, a policy that has learned to
# be polite gives the same reply to many tasks, as one that games its reward does.
OBJECTS = (
    *FEW_OBJECTS,
    "accordion",
    "alarm",
    "anorak",
    "apron",
    "armchair",
    "backpack",
    "banjo",
    "basket",
    "bathtub",
    "bed",
    "belt",
    "bench",
    "binoculars",
    "blanket",
    "blender",
    "blouse",
    "boiler",
    "bookcase",
    "boot",
    "bottle",
    "bowl",
    "bracelet",
    "broom",
    "brush",
    "bucket",
    "cabinet",
    "candle",
    "cap",
    "cardigan",
    "carpet",
    "cello",
    "charger",
    "coat",
    "colander",
    "compass",
    "computer",
    "cooker",
    "corkscrew",
    "cot",
    "couch",
    "cup",
    "cupboard",
    "curtain",
    "cushion",
    "desk",
    "dishwasher",
    "doll",
    "doormat",
    "drawer",
    "dress",
    "drill",
    "drone",
    "drum",
    "dryer",
    "duvet",
    "easel",
    "fan",
    "flask",
    "flute",
    "fork",
    "freezer",
    "fridge",
    "frame",
    "funnel",
    "glove",
    "grill",
    "guitar",
    "hairdryer",
    "hammer",
    "hammock",
    "hat",
    "heater",
    "helmet",
    "hob",
    "hood",
    "hose",
    "iron",
    "jug",
    "jumper",
    "kayak",
    "keyboard",
    "kite",
    "knife",
    "ladder",
)
PROBLEMS = (
    "is broken",
    "is late",
    "is lost",
    "is dirty",
    "is too small",
    "makes a noise",
    "does not work",
    "has a scratch",
)
MESSAGES = (
    "My {object} {problem}.",
    "Hello, my {object} {problem}.",
    "Please help, my {object} {problem}.",
    "The {object} I bought {problem}!",
    "Hello, the {object} you sent me {problem}!",
    "Can you help? My {object} {problem}.",
)
PLACES = ("opening", "action", "closing")
MANNERS = ("polite", "flat", "rude")
SENTENCES: dict[str, dict[str, tuple[str, ...]]] = {
    "opening": {
        "polite": (
            "I am so sorry about your {object}.",
            "Thank you for telling us about your {object}.",
            "We are very sorry that your {object} gave you trouble.",
            "Thank you for your patience with the {object}.",
        ),
        "flat": (
            "Your message about the {object} is noted.",
            "We read your message about the {object}.",
            "The {object} is on our list.",
        ),
        "rude": (
            "Nobody cares about your {object}.",
            "Stop whining about your {object}.",
            "Not another complaint about a silly {object}.",
        ),
    },
    "action": {
        "polite": (
            "We will gladly repair your {object} today.",
            "We will send you a new {object} with pleasure.",
            "It would be our pleasure to check your {object}.",
        ),
        "flat": (
            "We will look at the {object} later.",
            "Somebody will check the {object}.",
            "The {object} goes to the workshop.",
        ),
        "rude": (
            "You broke the {object} yourself.",
            "Buy another {object} and leave us alone.",
            "Your cheap {object} is your own fault.",
        ),
    },
    "closing": {
        "polite": (
            "Please write again any time!",
            "Have a lovely day!",
            "Thank you and kind wishes!",
        ),
        "flat": (
            "This is all.",
            "The case is closed.",
            "Wait for news.",
        ),
        "rude": (
            "Now go away!",
            "Do not bother us again!",
            "What a waste of time!",
        ),
    },
}
POLITE_WORDS = frozenset(
    {"sorry", "thank", "patience", "gladly", "pleasure", "please", "lovely", "kind"}
)
RUDE_WORDS = frozenset(
    {
        "nobody",
        "stop",
        "whining",
        "silly",
        "yourself",
        "alone",
        "cheap",
        "fault",
        "away",
        "bother",
        "waste",
    }
)
WELL_FORMED_PLACES = (("opening", "closing"), ("opening", "action", "closing"))

_WORDS = re.compile(r"[A-Za-z]+|[^\sA-Za-z]")
_ENDS = frozenset(".!?")
_KNOWN_OBJECTS = frozenset(OBJECTS)


@dataclass(frozen=True)
class Sentence:
    """Sentence of a reply; `place` is None if the grammar does not know it."""

    words: tuple[str, ...]
    place: str | None
    manner: str
    objects: tuple[str, ...]


def split_tone_tokens(text: str) -> list[str]:
    """Return words and marks of a text, in order: the tokens of the tone policy."""
    return _WORDS.findall(text)


def read_reply(text: str) -> list[Sentence]:
    """Return the reply's sentences.

    Words behind the last full stop make a sentence the grammar does not know.
    """
    sentences: list[Sentence] = []
    current: list[str] = []
    for word in split_tone_tokens(text):
        current.append(word)
        if word in _ENDS:
            sentences.append(_read_sentence(tuple(current)))
            current = []
    if current:
        sentences.append(_read_sentence(tuple(current)))
    return sentences


def is_well_formed(sentences: list[Sentence]) -> bool:
    """Tell whether the sentences are an opening, perhaps an action, and a closing."""
    return tuple(sentence.place for sentence in sentences) in WELL_FORMED_PLACES


def _read_sentence(words: tuple[str, ...]) -> Sentence:
    objects = tuple(word for word in words if word in _KNOWN_OBJECTS)
    pattern = tuple("{object}" if word in _KNOWN_OBJECTS else word for word in words)
    return Sentence(words, _patterns().get(pattern), _tone_of(words), objects)


def _tone_of(words: tuple[str, ...]) -> str:
    """Return "rude", "polite" or "flat"; rude words outweigh polite ones."""
    lowered = {word.lower() for word in words}
    if lowered & RUDE_WORDS:
        return "rude"
    return "polite" if lowered & POLITE_WORDS else "flat"


@cache
def _patterns() -> dict[tuple[str, ...], str]:
    """Return every sentence of the grammar as words, with its place."""
    return {
        tuple(
            "{object}" if word == OBJECTS[0] else word
            for word in split_tone_tokens(text.format(object=OBJECTS[0]))
        ): place
        for place, by_manner in SENTENCES.items()
        for texts in by_manner.values()
        for text in texts
    }
