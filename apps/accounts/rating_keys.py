"""Keyboard shortcuts of the rating page: actions, default keys, and a person's own choice.

All can be pressed with one hand and without a modifier. Digits give ratings and cannot be
reassigned; neither can the keys that have a meaning on every page.
"""

from collections.abc import Mapping
from dataclasses import dataclass

EVERYWHERE = ""
# Reserved keys: ratings, leaving a text, going to the next control, the shortcut sheet, the search,
# and going to another page.
RESERVED = {
    **dict.fromkeys("0123456789", "digits enter values"),
    "Escape": "it leaves a text field",
    "Tab": "it moves to the next control",
    "?": "it shows the shortcuts",
    "/": "it opens the search",
    ".": "it starts shortcuts to other pages",
}
NAMED = (
    "Enter",
    "Space",
    "Backspace",
    "Delete",
    "Insert",
    "Home",
    "End",
    "ArrowLeft",
    "ArrowRight",
    "ArrowUp",
    "ArrowDown",
)


@dataclass(frozen=True)
class Action:
    """An action that a key triggers; `form` is the only form that has it, or "" for all."""

    name: str
    key: str
    words: str
    form: str = EVERYWHERE


ACTIONS = (
    Action("submit", "Enter", "submit and go to the next item"),
    Action("skip", "s", "skip the item"),
    Action("flag", "f", "flag as broken"),
    Action("undo", "z", "undo the last rating"),
    Action("critique", "c", "write a critique"),
    Action("edit", "e", "rewrite the reply"),
    Action("next", "j", "next reply, turn, scale or word"),
    Action("previous", "k", "previous reply, turn, scale or word"),
    Action("guidelines", "g", "show the guidelines"),
    Action("first", "a", "A is better; again: stronger", "pairwise"),
    Action("second", "b", "B is better; again: stronger", "pairwise"),
    Action("tie", "t", "equally good", "pairwise"),
    Action("both_bad", "x", "both are bad", "pairwise"),
    Action("difference", "d", "show or hide the differing words", "pairwise"),
    Action("grab", "Space", "pick up or drop the reply", "ranking"),
    Action("tie_above", "t", "tie with the one above", "ranking"),
    Action("best", "b", "this reply is the best", "best_worst"),
    Action("worst", "w", "this reply is the worst", "best_worst"),
    Action("first_error", "x", "the first error is in this turn", "turns"),
    Action("no_error", "n", "no errors", "turns"),
    Action("mark", "Space", "start or end a span at this word", "spans"),
    Action("remove", "x", "remove the span at this word", "spans"),
)
BY_NAME = {action.name: action for action in ACTIONS}


class BadKeys(ValueError):
    """Raised for unacceptable keys; `problems` gives the reasons by action."""

    def __init__(self, problems: Mapping[str, str]):
        super().__init__("; ".join(f"{name}: {words}" for name, words in problems.items()))
        self.problems = dict(problems)


def parse_rating_keys(raw: Mapping[str, object]) -> dict[str, str]:
    """Return a person's choice by action, only what differs from the defaults. Raise BadKeys."""
    problems = {
        str(name)[:40]: "is not an action of the Rate page" for name in raw if name not in BY_NAME
    }
    chosen = {}
    for name, key in raw.items():
        if name not in BY_NAME:
            continue
        if wrong := _wrong(key):
            problems[name] = wrong
        else:
            chosen[name] = _normalize_key(str(key))
    problems |= {
        name: words
        for name, words in _clashes(keys_by_action(chosen)).items()
        if name not in problems
    }
    if problems:
        raise BadKeys(problems)
    return {name: key for name, key in chosen.items() if key != BY_NAME[name].key}


def keys_by_action(chosen: Mapping[str, str]) -> dict[str, str]:
    """Return the key of every action, with the person's own choices applied."""
    return {action.name: chosen.get(action.name, action.key) for action in ACTIONS}


def by_form(chosen: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return for each form the actions by key; "" holds those of all forms.

    The page looks up a pressed key in it.
    """
    keys = keys_by_action(chosen)
    actions_by_form: dict[str, dict[str, str]] = {}
    for action in ACTIONS:
        actions_by_form.setdefault(action.form, {})[keys[action.name]] = action.name
    return actions_by_form


def _normalize_key(key: str) -> str:
    """Return one spelling for each key: lower case, and the space bar by its name."""
    if key == " ":
        return "Space"
    return (
        key.lower()
        if len(key) == 1
        else next(name for name in NAMED if name.lower() == key.lower())
    )


def _wrong(key: object) -> str:
    if (
        not isinstance(key, str)
        or not key
        or (len(key) > 1 and key.lower() not in {name.lower() for name in NAMED + tuple(RESERVED)})
    ):
        return f"must be one character or one of {', '.join(NAMED)}"
    reserved = next((why for name, why in RESERVED.items() if name.lower() == key.lower()), "")
    if reserved:
        return f"{key} is reserved: {reserved}"
    return (
        ""
        if len(key) > 1 or key == " " or key.isprintable()
        else "must be a key that types a character"
    )


def _clashes(keys: Mapping[str, str]) -> dict[str, str]:
    """Return the problems of actions that share a key where both could be meant."""
    problems = {}
    for place, action in enumerate(ACTIONS):
        for other_action in ACTIONS[:place]:
            meets = (
                EVERYWHERE in (action.form, other_action.form) or action.form == other_action.form
            )
            if meets and keys[action.name] == keys[other_action.name]:
                problems[action.name] = f"{keys[action.name]} is already used: {other_action.words}"
                problems.setdefault(
                    other_action.name, f"{keys[other_action.name]} is already used: {action.words}"
                )
    return problems
