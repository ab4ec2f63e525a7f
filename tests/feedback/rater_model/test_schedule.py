"""How many decisions are wanted by when, with the defaults of a run that asks for 150 of which 25 are rewrites."""

import itertools

import pytest

from apps.feedback.rater_model.schedule import due, first_share
from apps.runs.people import Schedule

USUAL = Schedule(decisions=150, rewrites=25)


def test_a_fifth_is_asked_before_the_first_update():
    assert due(USUAL, 0, 120).decisions == first_share(USUAL) == 30


def test_a_small_budget_begins_with_twenty():
    assert due(Schedule(decisions=50), 0, 120).decisions == 20
    assert due(Schedule(decisions=12), 0, 120).decisions == 12


def test_the_rest_is_spread_evenly_to_three_quarters_of_the_run():
    wanted = [due(USUAL, step, 120).decisions for step in range(121)]
    assert wanted[90] == wanted[120] == 150 and wanted[89] < 150
    gaps = {b - a for a, b in itertools.pairwise(wanted[:91])}
    assert gaps == {1, 2}


def test_rewrites_are_asked_to_half_time_and_are_among_the_decisions():
    rewrites = [due(USUAL, step, 120).rewrites for step in range(121)]
    assert rewrites[0] == 5 and rewrites[60] == 25 and rewrites[59] < 25
    assert all(due(USUAL, step, 120).rewrites <= due(USUAL, step, 120).decisions for step in range(121))


@pytest.mark.parametrize("until", [0.0, 1.0])
def test_the_whole_budget_is_wanted_in_the_end(until):
    assert due(Schedule(decisions=77, until=until), 120, 120).decisions == 77
