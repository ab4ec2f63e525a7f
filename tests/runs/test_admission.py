import random
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from apps.runs.admission import Pace, groups_allowed, groups_to_wait_for, oldest_allowed

paces = st.builds(
    Pace,
    published_version=st.integers(0, 50),
    groups_opened=st.just(0),
    groups_dropped=st.just(0),
    groups_per_step=st.integers(1, 32),
    sync_interval=st.integers(1, 5),
    max_staleness=st.integers(0, 8),
    planned_steps=st.just(10**6),
)


@given(paces)
def test_group_that_may_be_opened_now_is_fresh_enough_at_its_step(pace):
    last_step = (
        groups_allowed(pace) // pace.groups_per_step
    )  # the step that takes the last group, from 1
    trainer_version = (
        last_step - 1
    ) // pace.sync_interval  # a version is published every `sync_interval` updates
    assert pace.published_version >= oldest_allowed(trainer_version, pace.max_staleness)


@given(paces)
def test_step_after_the_published_version_can_always_be_filled(pace):
    steps_until_next_publish = (pace.published_version + 1) * pace.sync_interval
    assert groups_allowed(pace) >= steps_until_next_publish * pace.groups_per_step


@given(paces, st.data())
def test_replaying_run_always_has_room_for_a_full_step_of_new_groups(pace, data):
    most = data.draw(st.integers(0, pace.groups_per_step - 1))
    step = data.draw(
        st.integers(
            pace.published_version * pace.sync_interval,
            (pace.published_version + 1) * pace.sync_interval - 1,
        )
    )
    again = data.draw(st.integers(0, step * most))
    used = step * pace.groups_per_step - again  # and no other groups exist
    found = replace(pace, groups_opened=used, step=step, groups_again=again, again_per_step=most)
    assert pace.groups_per_step <= groups_allowed(found) <= groups_allowed(pace)


def test_synchronous_runs_open_one_step_at_a_time():
    assert groups_allowed(Pace(3, 64, 0, 16, 1, 0, 100)) == 0
    assert groups_allowed(Pace(4, 64, 0, 16, 1, 0, 100)) == 16


def test_no_groups_are_opened_beyond_the_planned_steps():
    assert groups_allowed(Pace(9, 160, 0, 16, 1, 4, 10)) == 0


# -- over-rollout


@st.composite
def over_rolled(draw):
    """Draw a run whose over-rollout is within its staleness bound."""
    pace = draw(paces)
    most = pace.max_staleness * pace.sync_interval * pace.groups_per_step
    return replace(pace, over_rollout=draw(st.integers(0, most)))


@given(over_rolled())
def test_over_rollout_allows_the_next_version_plus_its_number_of_groups(pace):
    until_next = (pace.published_version + 1) * pace.sync_interval * pace.groups_per_step
    assert (
        groups_allowed(pace)
        == until_next + pace.over_rollout
        <= groups_allowed(replace(pace, over_rollout=None))
    )


def test_over_rollout_opens_no_groups_beyond_the_planned_steps():
    pace = Pace(
        published_version=3,
        groups_opened=0,
        groups_dropped=0,
        groups_per_step=4,
        sync_interval=1,
        max_staleness=1,
        planned_steps=4,
        over_rollout=3,
    )
    assert groups_allowed(pace) == 16


def simulated(pace: Pace, chance: random.Random, waits: bool, steps: int = 25) -> tuple[int, int]:
    """Simulate a run whose groups take a random time; return the numbers of groups that were lost
    as stale and of groups that were trained.
    """
    pace = replace(pace, published_version=0, step=0)
    open_ = {}
    ready = {}
    lost = 0
    trained = 0
    idle = 0
    while pace.step < steps:
        for _ in range(groups_allowed(pace)):
            open_[pace.groups_opened] = pace.published_version
            pace = replace(pace, groups_opened=pace.groups_opened + 1)
        done = (
            [draw for draw in open_ if chance.random() < (0.02 if draw % 3 == 0 else 0.7)]
            if idle < 500
            else list(open_)
        )
        ready |= {draw: open_.pop(draw) for draw in done}
        now = pace.step // pace.sync_interval
        stale = [
            draw
            for draw, version in ready.items()
            if version < oldest_allowed(now, pace.max_staleness)
        ]
        for draw in stale:
            del ready[draw]
        lost = lost + len(stale)
        pace = replace(pace, groups_dropped=pace.groups_dropped + len(stale))
        idle += 1
        assert idle < 600, "the run is stuck, although all groups are complete"
        if len(ready) < pace.groups_per_step or (
            waits and groups_to_wait_for(pace, list(ready.values()), list(open_.values()))
        ):
            continue
        for draw in sorted(ready)[: pace.groups_per_step]:
            del ready[draw]
        step = pace.step + 1
        idle = 0
        trained = trained + pace.groups_per_step
        pace = replace(pace, step=step, published_version=step // pace.sync_interval)
    return lost, trained


small = st.builds(
    Pace,
    published_version=st.just(0),
    groups_opened=st.just(0),
    groups_dropped=st.just(0),
    groups_per_step=st.integers(1, 5),
    sync_interval=st.integers(1, 3),
    max_staleness=st.integers(1, 3),
    planned_steps=st.just(10**6),
)


@given(small, st.data())
def test_over_rollout_never_loses_stale_groups_and_the_run_proceeds(pace, data):
    most = pace.max_staleness * pace.sync_interval * pace.groups_per_step
    pace = replace(pace, over_rollout=data.draw(st.integers(0, most)))
    seed = data.draw(st.integers(0, 2**32))
    lost, trained = simulated(pace, random.Random(seed), waits=True)
    assert (lost, trained) == (0, 25 * pace.groups_per_step)


def test_without_waiting_over_rollout_would_lose_groups():
    pace = Pace(
        published_version=0,
        groups_opened=0,
        groups_dropped=0,
        groups_per_step=4,
        sync_interval=1,
        max_staleness=1,
        planned_steps=10**6,
        over_rollout=4,
    )
    lost, _ = simulated(pace, random.Random(0), waits=False)
    assert lost


def test_step_waits_for_a_group_that_no_later_step_may_take():
    pace = Pace(
        published_version=1,
        groups_opened=0,
        groups_dropped=0,
        groups_per_step=2,
        sync_interval=1,
        max_staleness=1,
        planned_steps=100,
        step=1,
        over_rollout=1,
    )
    assert groups_to_wait_for(pace, [1, 1], [0]) == 1
    assert groups_to_wait_for(pace, [0, 1], []) == 0
    assert (
        groups_to_wait_for(replace(pace, max_staleness=2), [1, 1], [0]) == 0
    )  # the step after it may take the group
