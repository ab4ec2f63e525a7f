from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from apps.runs.admission import Pace, groups_allowed, oldest_allowed

paces = st.builds(
    Pace, published_version=st.integers(0, 50), groups_opened=st.just(0), groups_dropped=st.just(0),
    groups_per_step=st.integers(1, 32),
    sync_interval=st.integers(1, 5), max_staleness=st.integers(0, 8), planned_steps=st.just(10**6),
)  # fmt: skip


@given(paces)
def test_whatever_may_open_now_is_still_young_enough_when_its_step_comes(pace):
    last_step = groups_allowed(pace) // pace.groups_per_step  # the step that takes the last group, from 1
    trainer_version = (last_step - 1) // pace.sync_interval  # a version is published every `sync_interval` updates
    assert pace.published_version >= oldest_allowed(trainer_version, pace.max_staleness)


@given(paces)
def test_the_step_after_the_published_version_can_always_be_filled(pace):
    steps_until_next_publish = (pace.published_version + 1) * pace.sync_interval
    assert groups_allowed(pace) >= steps_until_next_publish * pace.groups_per_step


@given(paces, st.data())
def test_a_run_that_replays_has_room_for_a_whole_update_of_new_groups_whatever_was_replayed(pace, data):
    most = data.draw(st.integers(0, pace.groups_per_step - 1))
    step = data.draw(
        st.integers(pace.published_version * pace.sync_interval, (pace.published_version + 1) * pace.sync_interval - 1)
    )
    again = data.draw(st.integers(0, step * most))
    used = step * pace.groups_per_step - again  # and nothing more is there
    found = replace(pace, groups_opened=used, step=step, groups_again=again, again_per_step=most)
    assert pace.groups_per_step <= groups_allowed(found) <= groups_allowed(pace)


def test_synchronous_runs_open_one_step_at_a_time():
    assert groups_allowed(Pace(3, 64, 0, 16, 1, 0, 100)) == 0
    assert groups_allowed(Pace(4, 64, 0, 16, 1, 0, 100)) == 16


def test_nothing_opens_beyond_the_planned_steps():
    assert groups_allowed(Pace(9, 160, 0, 16, 1, 4, 10)) == 0
