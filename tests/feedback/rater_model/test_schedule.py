"""How many ratings are wanted by when, with the defaults of a run that asks for 150, of which 25
are rewrites.
"""

import itertools

import pytest

from apps.feedback.rater_model.schedule import first_share, schedule_decisions
from apps.runs.config import RunConfig
from apps.runs.parsing import parse_config

STEP = 16  # groups of an update


def plan(**schedule) -> RunConfig:
    people = {
        "per_group": 4,
        "at_deadline": "fill_with_rater_model",
        "rater_model": {},
        "schedule": schedule,
    }
    return parse_config(
        {
            "policy": "p",
            "taskset": "t",
            "steps": 120,
            "group_size": 8,
            "groups_per_step": STEP,
            "people": people,
        }
    )


USUAL = plan(decisions=150, rewrites=25)


def test_one_fifth_is_requested_before_the_first_step_one_per_group():
    assert schedule_decisions(USUAL, 2 * STEP).decisions == first_share(USUAL) == 30
    wanted = [schedule_decisions(USUAL, groups).decisions for groups in range(2 * STEP + 1)]
    assert {b - a for a, b in itertools.pairwise(wanted)} == {0, 1}


def test_small_budget_starts_with_at_most_twenty():
    assert first_share(plan(decisions=50)) == 20 and first_share(plan(decisions=12)) == 12


def test_first_share_is_limited_by_the_number_of_replies():
    assert first_share(plan(decisions=10_000)) == 2 * STEP * 4


def test_remaining_ratings_are_spread_evenly_over_three_quarters_of_the_run():
    wanted = [schedule_decisions(USUAL, step * STEP).decisions for step in range(121)]
    assert wanted[90] == wanted[120] == 150 and wanted[89] < 150
    assert {b - a for a, b in itertools.pairwise(wanted[2:91])} == {1, 2}


def test_rewrites_are_requested_until_half_time_and_count_as_ratings():
    wanted = [schedule_decisions(USUAL, step * STEP) for step in range(121)]
    assert wanted[2].rewrites == 5 and wanted[60].rewrites == 25 and wanted[59].rewrites < 25
    assert all(one.rewrites <= one.decisions for one in wanted)


@pytest.mark.parametrize("end_share", [0.0, 0.01, 1.0])
def test_the_whole_budget_is_wanted_in_the_end(end_share):
    assert schedule_decisions(plan(decisions=77, end_share=end_share), 120 * STEP).decisions == 77
