"""Only `apps.feedback.ratings.intake` writes the rows of ratings."""

import ast
import re

import pytest

from tests.architecture.test_imports import modules
from tests.architecture.test_locks import docstrings

INTAKE = "apps.feedback.ratings.intake"
# A replay copies the ratings of another run.
COPIES = "apps.lineage.replaying.copying"
WRITES = re.compile(r"\b(INSERT\s+INTO|UPDATE)\s+feedback_rating\b", re.I)
MAKES = {"create", "bulk_create", "get_or_create", "update_or_create"}


def rating_writes(source: str) -> list[int]:
    """Return the lines that create a rating, or write to its table in SQL."""
    tree = ast.parse(source)
    texts = docstrings(tree)
    found = [
        node.lineno
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        if WRITES.search(node.value) and id(node) not in texts
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            made = called.removeprefix("Rating.objects.")
            if called == "Rating" or (made != called and made in MAKES):
                found.append(node.lineno)
    return found


def test_only_the_intake_writes_ratings():
    guilty = {name for name, path in modules() if rating_writes(path.read_text())}
    assert guilty == {INTAKE, COPIES}


@pytest.mark.parametrize(
    "source",
    [
        "Rating(rater=user)",
        "Rating.objects.create(rater=user)",
        "Rating.objects.bulk_create(rows)",
        "SQL = 'insert into feedback_rating (id) values (1)'",
        "SQL = 'UPDATE feedback_rating t SET item_id = 1'",
    ],
)
def test_each_way_to_write_a_rating_is_detected(source):
    assert rating_writes(source) == [1]


@pytest.mark.parametrize(
    "source",
    [
        "Rating.objects.filter(pk=1)",
        "SQL = 'INSERT INTO feedback_ratingreward (id) VALUES (1)'",
        "SQL = 'SELECT 1 FROM feedback_rating'",
    ],
)
def test_reading_ratings_is_allowed(source):
    assert rating_writes(source) == []
