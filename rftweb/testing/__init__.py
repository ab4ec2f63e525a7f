"""Test kit for authors of plugins: a `check_…` for each kind.

Each takes the path of a plugin's file or package, or the name of a plugin that is installed, and
raises PluginFailed with everything that it found. They use no database. docs/plugins.md explains
them.
"""

import os

import django
from django.apps import apps

if not apps.ready:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rftweb.settings")
    django.setup()

# Django is set up before models load.
from rftweb.testing.environments import check_environment
from rftweb.testing.failures import PluginFailed
from rftweb.testing.generators import check_generator
from rftweb.testing.losses import check_loss
from rftweb.testing.operators import check_operator, sample
from rftweb.testing.parts import (
    check_advantage,
    check_alert_channel,
    check_dataset_source,
    check_rater_model,
)
from rftweb.testing.rating_forms import check_rating_form
from rftweb.testing.scorers import Example, check_scorer

__all__ = [
    "Example",
    "PluginFailed",
    "check_advantage",
    "check_alert_channel",
    "check_dataset_source",
    "check_environment",
    "check_generator",
    "check_loss",
    "check_operator",
    "check_rater_model",
    "check_rating_form",
    "check_scorer",
    "sample",
]
