"""What plugins import from rftweb beside the contract of their own kind.

Names are imported when they are asked for: losses and environments run in processes without Django.
"""

from importlib import import_module
from typing import Any

from apps.plugins.contract import PluginOptions

__all__ = ["PluginOptions"]

HOMES = {
    "Answer": "apps.feedback.forms.form",
    "BadAnswer": "apps.feedback.forms.form",
    "Form": "apps.feedback.forms.form",
    "FormOptions": "apps.feedback.forms.form",
    "Message": "apps.alerts.messages",
    "People": "apps.runs.people",
    "Question": "apps.feedback.forms.form",
    "one_of": "apps.feedback.forms.words",
    "required": "apps.feedback.forms.words",
    "whole": "apps.feedback.forms.words",
    "words": "apps.feedback.forms.words",
}


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"rftweb.plugins has no {name!r}; it has {', '.join(sorted(HOMES))}")
    return getattr(import_module(HOMES[name]), name)
