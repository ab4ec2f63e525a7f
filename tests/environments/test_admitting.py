"""Places in a service: at most `parallel` episodes at once, the oldest first; a dead explorer frees
its places.
"""

import threading
from datetime import timedelta

import pytest
from django.db import connection
from django.utils import timezone

from apps.environments.admitting import admit_episodes, others_play
from apps.environments.closing import end_episode
from apps.environments.episode_opening import open_for
from apps.environments.models import Environment, Episode, PlaySession
from apps.environments.playing import observe
from apps.rollouts.models import Group
from apps.rollouts.serving import NoRoom

State = Episode.State


@pytest.fixture
def service(project) -> Environment:
    """Create a service in which two episodes can be played at once."""
    return Environment.objects.create(
        project=project,
        name="far",
        kind=Environment.Kind.HTTP,
        address="http://far.example",
        parallel=2,
    )


@pytest.fixture
def waiting(service, opened, new_run) -> list[int]:
    run = new_run(environment={"name": service.name}, rewards=[], group_size=5)
    return [episode.pk for episode in opened(service, run)]


@pytest.mark.django_db
def test_oldest_episodes_are_admitted_as_places_become_free(service, waiting):
    assert set(Episode.objects.values_list("state", "begun_at")) == {(State.WAITING, None)}
    assert admit_episodes(service, waiting) == set(waiting[:2]) == admit_episodes(service, waiting)
    end_episode(waiting[0], "over")
    assert admit_episodes(service, waiting[3:]) == set()  # an older one waits
    assert admit_episodes(service, waiting[2:3]) == {waiting[2]}
    assert Episode.objects.get(pk=waiting[2]).begun_at is not None


@pytest.mark.django_db
def test_episode_under_way_is_not_admitted_again(service, waiting):
    admit_episodes(service, waiting)
    observe(waiting[0], 0, "see")
    assert admit_episodes(service, waiting) == {waiting[1]}
    assert (others_play(service, waiting[1:]), others_play(service, waiting[:1])) == (True, False)


@pytest.mark.django_db
def test_dead_explorer_frees_its_places(service, waiting, opened, new_run):
    admit_episodes(service, waiting)
    Group.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    others = [
        episode.pk
        for episode in opened(service, new_run(environment={"name": service.name}, rewards=[]))
    ]
    assert admit_episodes(service, others) == set(others[:2])


@pytest.mark.django_db
def test_outside_clients_share_the_places_of_an_environment(service, waiting, alice):
    session = PlaySession.objects.create(environment=service, user=alice, way="ws")
    open_for(session, service, 3, {})
    assert admit_episodes(service, waiting) == {waiting[0]}
    with pytest.raises(NoRoom, match="parallel: 2"):
        open_for(session, service, 3, {})


@pytest.mark.django_db(transaction=True)
def test_two_explorers_never_admit_more_episodes_than_there_are_places(service, waiting):
    let_in = []
    ready = threading.Barrier(2)

    def explore(mine: list[int]) -> None:
        try:
            for _ in range(20):
                ready.wait(120)
                let_in.append(admit_episodes(service, mine))
                ready.wait(120)
                inside = Episode.objects.filter(state=State.ENVIRONMENT)
                assert inside.count() == 2
                ready.wait(120)
                if mine is waiting:
                    inside.update(state=State.WAITING)
        finally:
            connection.close()

    seen = []
    threads = [
        threading.Thread(target=lambda mine=mine: seen.append(explore(mine)))
        for mine in (waiting, list(waiting))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert seen == [None, None] and set().union(*let_in) == set(waiting[:2])
