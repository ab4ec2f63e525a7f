"""How many models stay loaded, and the message of a run that waits for memory."""

from types import SimpleNamespace

import pytest

from workers import memory_budget
from workers.waiting_reasons import all_taken

MIB = 1 << 20


@pytest.mark.parametrize(
    ("bound_mb", "free", "resident", "more", "fits"),
    [
        (100, 1000, 60, 40, True),
        (100, 1000, 61, 40, False),  # above the limit
        (100, 79, 0, 40, False),  # free memory is less than twice the new model's size
        (0, 1000, 0, 1, False),
        (None, 1000, 200, 50, True),  # a quarter of 1,000
        (None, 1000, 201, 50, False),
    ],
)
def test_another_model_fits_within_the_limit_and_the_free_memory(
    settings, monkeypatch, bound_mb, free, resident, more, fits
):
    settings.RESIDENT_MEMORY_MB = bound_mb
    monkeypatch.setattr(memory_budget, "_memory", lambda: (free * MIB, 1000 * MIB))
    assert memory_budget.fits(resident * MIB, more * MIB) is fits


def test_machine_memory_is_read():
    free, total = memory_budget._ram()
    assert 0 < free < total


@pytest.mark.parametrize(
    ("slugs", "others", "words"),
    [
        (["a"], 0, "1 of 1 are used by a"),
        (["b", "a"], 0, "2 of 2 are used by a and b"),
        (["a", "b", "c", "d", "e"], 0, "5 of 5 are used by a, b, c and 2 more"),
        (["a"], 2, "3 of 3 are used by a and 2 runs of other projects"),
        ([], 1, "1 of 1 are used by 1 run of other projects"),
    ],
)
def test_holders_of_the_own_project_are_named_and_others_counted(slugs, others, words):
    holders = [SimpleNamespace(slug=slug, project_id=1) for slug in slugs]
    holders += [SimpleNamespace(slug="secret", project_id=2)] * others
    assert all_taken(SimpleNamespace(project_id=1), holders) == words
