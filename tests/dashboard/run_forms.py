"""The form of a new run as a browser fills in and submits it."""

import pytest
from django.http import QueryDict

from apps.accounts.models import Project
from apps.dashboard.presets import choose_initial_values, presets
from apps.dashboard.run_form import RunForm, load_run_form

SCALE = ("name", "low", "high", "weight", "description")


@pytest.fixture
def alice_client(client, seeded):
    client.force_login(seeded.alice)
    return client


def posted(form: RunForm, **changes: str) -> QueryDict:
    """Return the form as a browser submits it, with some fields changed: dots in their names are
    two underscores here.
    """
    sent = QueryDict(mutable=True)
    for knob in form.knobs:
        if knob.kind == "switch":
            sent.update({knob.address: "on"} if knob.value else {})
        elif knob.kind == "names":
            sent.setlist(knob.address, list(knob.value))
        elif knob.kind in ("scorers", "rows"):
            parts = ("scorer", "weight") if knob.kind == "scorers" else SCALE
            rows = enumerate(knob.slots)
            sent.update(
                {
                    f"{knob.address}.{n}.{part}": str(row.get(part, ""))
                    for n, row in rows
                    for part in parts
                }
            )
        else:
            sent[knob.address] = "" if knob.value is None else str(knob.value)
    sent.update({"yaml": form.text, "drawn": form.drawn, "slug": "mine", "title": "Mine"})
    for name, value in changes.items():
        sent[name.replace("__", ".")] = value
    return sent


@pytest.fixture
def lab(seeded):
    return Project.objects.get(slug="lab")


@pytest.fixture
def first(lab, seeded) -> RunForm:
    return load_run_form(lab, choose_initial_values(presets()[0], lab), seeded.alice)
