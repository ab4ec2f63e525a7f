"""Check of a rating form: its parts, and an answer as the rating page sends it."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from django.template import Context

from apps.feedback.forms.form import BadAnswer, Form
from apps.plugins.kinds import RATING_FORM
from apps.plugins.registry import REGISTRY
from apps.runs.people import People
from rftweb.testing.failures import PluginFailed, find_plugin, open_plugin, require_none

ROLLOUT = 1


def check_rating_form(
    plugin: Path | str,
    answer: Mapping[str, Any],
    options: Mapping[str, Any] | None = None,
) -> float | None:
    """Return the value of a reply that was rated with this answer; None: it has none.

    Raises PluginFailed for an answer that the form refuses, and unless its canonical answer is read
    as itself, it has words, and the item can be drawn.
    """
    people = People(form_options=dict(options or {}))
    with open_plugin(plugin) as name:
        form = find_plugin(partial(REGISTRY.find, RATING_FORM), name)
        try:
            canonical = form.parse(dict(answer), [ROLLOUT], people)
            again = form.parse(canonical, [ROLLOUT], people)
        except BadAnswer as bad:
            refusals = [f"{field}: {words}" for field, words in bad.problems.items()]
            raise PluginFailed(name, refusals) from None
        problems = [] if again == canonical else ["reads its canonical answer as another one"]
        problems += _problems_of_page(form, people, canonical)
        values = form.values(canonical, [ROLLOUT], people)
    require_none(name, problems)
    return values.get(ROLLOUT)


def _problems_of_page(form: Form, people: People, answer: Mapping[str, Any]) -> list[str]:
    reply = {"rollout": ROLLOUT, "letter": "A", "place": 1, "text": "A reply.", "turns": []}
    context = {
        "replies": [{**reply, "is_dialogue": False}],
        "answer": answer,
        "options": form.read_options(people),
        "choices": form.choices(people),
        "keys": {},
    }
    problems = [] if form.in_words(dict(answer)).strip() else ["in_words() returns nothing"]
    try:
        getattr(form, "inner", form).template.render(Context({"shown": context}))
    except Exception as error:  # a template may raise whatever its tags raise
        problems.append(f"item.html cannot be drawn: {type(error).__name__}: {error}")
    return problems
