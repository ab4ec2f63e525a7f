"""Messages show files by their own names, not by their paths on this machine."""

import sys
import tempfile
from pathlib import Path

import pytest
from django.conf import settings

from apps.accounts.problems import problem_document
from apps.accounts.public_text import public_text
from apps.runs.log_keeper import shorten_value

PLACES = {
    "VAR": settings.VAR,
    "WEIGHTS": settings.WEIGHTS_ROOT,
    "BASE": settings.BASE_DIR,
    "PREFIX": sys.prefix,
    "TEMP": tempfile.gettempdir(),
}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("nothing to hide", "nothing to hide"),
        ("[Errno 2] No such file: '{VAR}/imports/7/a.csv'", "[Errno 2] No such file: 'a.csv'"),
        (
            "failed to open '{WEIGHTS}/p/1/x.safetensors': bad",
            "failed to open 'x.safetensors': bad",
        ),
        ('File "{BASE}/apps/x.py", line 3', 'File "apps/x.py", line 3'),
        ("cannot load {PREFIX}/lib/site-packages/y.so.", "cannot load y.so."),
        ("disk full: {TEMP}/tmpab12/rows, and more", "disk full: rows, and more"),
        ("{WEIGHTS}: not a folder", "a file of the server: not a folder"),
        ("https://example.org/a/b", "https://example.org/a/b"),
        ("at /properties/x, 3/4 of them", "at /properties/x, 3/4 of them"),
    ],
)
def test_paths_of_this_machine_are_removed_from_messages(text, shown):
    whole = text.format(**PLACES)
    assert public_text(whole) == shown
    assert shorten_value(whole) == shown
    problem = problem_document(422, "wrong", whole, errors={"field": [whole]})
    assert (problem["detail"], problem["errors"]) == (shown, {"field": [shown]})


def test_message_shows_an_uploaded_file_by_its_original_name():
    folder = Path(settings.IMPORTS_ROOT) / "17"
    names = {folder: "set.zip"}
    assert public_text(f"{folder}/train/a.csv is empty", names) == "train/a.csv is empty"
    assert public_text(f"cannot read '{folder}'", names) == "cannot read 'set.zip'"
    assert public_text(f"{folder}1/a.csv is empty", names) == "a.csv is empty"


def test_long_reason_that_grows_by_a_short_name_is_cut_to_its_column(run):
    place = tempfile.gettempdir()
    reason = "x" * (499 - len(place)) + f" {place}"
    run.pause(reason=reason)
    run.refresh_from_db()
    assert (run.state, len(run.state_reason)) == ("paused", 500)
