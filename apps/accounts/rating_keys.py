"""The keys of the rating page: what each does, which key it has by default, and a person's own choice of keys.

One hand and no modifier. Digits give values and cannot be moved; neither can the keys that every page gives a meaning.
"""

from collections.abc import Mapping
from dataclasses import dataclass

EVERYWHERE = ""
# Not to be had: values, leaving a text, going to the next control, the sheet, the search, and going to another page.
RESERVED = {
    **dict.fromkeys("0123456789", "digits give values"),
    "Escape": "it leaves a text",
    "Tab": "it goes to the next control",
    "?": "it shows the sheet of keys",
    "/": "it goes to the search",
    ".": "it begins going to another page",
}
NAMED = ("Enter", "Space", "Backspace", "Delete", "Insert", "Home", "End", "ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown")


@dataclass(frozen=True)
class Action:
    """Something a key does; `form` is the only form in which it does, or "" for all of them."""

    name: str
    key: str
    words: str
    form: str = EVERYWHERE


ACTIONS = (
    Action("submit", "Enter", "take the answer, show the next"),
    Action("skip", "s", "skip, with a reason"),
    Action("flag", "f", "flag as broken, with a reason"),
    Action("undo", "z", "take back the last answer"),
    Action("critique", "c", "write a critique"),
    Action("edit", "e", "write it as it should be"),
    Action("next", "j", "next reply, turn, scale or word"),
    Action("previous", "k", "previous reply, turn, scale or word"),
    Action("guidelines", "g", "guidelines"),
    Action("first", "a", "the first is better; again: more clearly", "pairwise"),
    Action("second", "b", "the second is better; again: more clearly", "pairwise"),
    Action("tie", "t", "equally good", "pairwise"),
    Action("both_bad", "x", "both are bad", "pairwise"),
    Action("grab", "Space", "take the reply up, or put it down", "ranking"),
    Action("tie_above", "t", "as good as the one above it", "ranking"),
    Action("best", "b", "this reply is the best", "best_worst"),
    Action("worst", "w", "this reply is the worst", "best_worst"),
    Action("first_error", "x", "the first error is in this turn", "turns"),
    Action("no_error", "n", "no turn is wrong", "turns"),
    Action("mark", "Space", "begin a span at this word, or end it", "spans"),
    Action("remove", "x", "remove the span at this word", "spans"),
)
BY_NAME = {action.name: action for action in ACTIONS}


class BadKeys(ValueError):
    """These keys cannot be taken. `problems`: for each action, words that say why."""

    def __init__(self, problems: Mapping[str, str]):
        super().__init__("; ".join(f"{name}: {words}" for name, words in problems.items()))
        self.problems = dict(problems)


def parse(raw: Mapping[str, object]) -> dict[str, str]:
    """A person's choice: only what differs from the defaults, by action. Raises BadKeys."""
    problems = {str(name)[:40]: "is no action of the rating page" for name in raw if name not in BY_NAME}
    chosen = {}
    for name, key in raw.items():
        if name not in BY_NAME:
            continue
        if wrong := _wrong(key):
            problems[name] = wrong
        else:
            chosen[name] = _spelt(str(key))
    problems |= {name: words for name, words in _clashes(keys_of(chosen)).items() if name not in problems}
    if problems:
        raise BadKeys(problems)
    return {name: key for name, key in chosen.items() if key != BY_NAME[name].key}


def keys_of(chosen: Mapping[str, str]) -> dict[str, str]:
    """The key of every action, where `chosen` has those that a person moved."""
    return {action.name: chosen.get(action.name, action.key) for action in ACTIONS}


def by_form(chosen: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Action by key for each form, and under "" for all: what the page looks a pressed key up in."""
    keys = keys_of(chosen)
    found: dict[str, dict[str, str]] = {}
    for action in ACTIONS:
        found.setdefault(action.form, {})[keys[action.name]] = action.name
    return found


def _spelt(key: str) -> str:
    """One spelling for each key: letters small, the space bar by its name."""
    if key == " ":
        return "Space"
    return key.lower() if len(key) == 1 else next(name for name in NAMED if name.lower() == key.lower())


def _wrong(key: object) -> str:
    if (
        not isinstance(key, str)
        or not key
        or (len(key) > 1 and key.lower() not in {name.lower() for name in NAMED + tuple(RESERVED)})
    ):
        return f"must be one character, or one of {', '.join(NAMED)}"
    reserved = next((why for name, why in RESERVED.items() if name.lower() == key.lower()), "")
    if reserved:
        return f"{key} cannot be moved here: {reserved}"
    return "" if len(key) > 1 or key == " " or key.isprintable() else "must be a key that writes something"


def _clashes(keys: Mapping[str, str]) -> dict[str, str]:
    """Two actions on one key, where both could be meant."""
    problems = {}
    for place, action in enumerate(ACTIONS):
        for other in ACTIONS[:place]:
            meets = EVERYWHERE in (action.form, other.form) or action.form == other.form
            if meets and keys[action.name] == keys[other.name]:
                problems[action.name] = f"{keys[action.name]} is taken already: {other.words}"
                problems.setdefault(other.name, f"{keys[other.name]} is taken already: {action.words}")
    return problems
