"""Who sees what was said about a run's replies."""

import pytest
from django.contrib.auth.models import AnonymousUser

from apps.accounts.models import Membership, Project, RaterGroup, User
from apps.runs.blind_review import (
    blind_payload,
    judged_openly,
    open_among,
    open_topics,
    sees_judgements,
)


@pytest.fixture
def viewer(project) -> User:
    user = User.objects.create_user("vera")
    Membership.objects.create(project=project, user=user, role=Membership.Role.VIEWER)
    return user


def test_a_rater_is_blind_unless_the_run_says_otherwise(new_run, bob):
    assert not sees_judgements(bob, new_run())
    assert sees_judgements(bob, new_run(people={"blind": False}))


def test_owners_researchers_and_administrators_see_everything(run, alice, admin, carol):
    Membership.objects.create(project=run.project, user=carol, role=Membership.Role.RESEARCHER)
    assert [sees_judgements(person, run) for person in (alice, admin, carol)] == [True, True, True]


def test_a_viewer_looks_until_the_run_asks_them_by_name_or_by_group(new_run, project, viewer):
    RaterGroup.objects.create(project=project, name="nurses").members.add(viewer)
    plain = new_run()
    by_name = new_run(people={"raters": {"people": ["vera"]}})
    by_group = new_run(people={"raters": {"groups": ["doctors", "nurses"]}})
    others = new_run(people={"raters": {"people": ["bob"], "groups": ["doctors"]}})
    assert open_among(viewer, [plain.pk, by_name.pk, by_group.pk, others.pk]) == {
        plain.pk,
        others.pk,
    }


def test_a_run_from_before_there_was_the_choice_is_blind(run, bob, viewer):
    del run.config["people"]
    run.save()
    assert not sees_judgements(bob, run) and sees_judgements(viewer, run)


def test_a_stranger_and_nobody_see_nothing_even_of_an_open_run(new_run, carol):
    run = new_run(people={"blind": False})
    assert not sees_judgements(carol, run)
    assert not judged_openly(AnonymousUser()).exists()


def test_being_owner_elsewhere_opens_nothing_here(new_run, bob):
    Membership.objects.create(
        project=Project.objects.create(slug="hers", title="Hers"),
        user=bob,
        role=Membership.Role.OWNER,
    )
    assert open_among(bob, [new_run().pk]) == set()


def test_topics_follow_their_runs(new_run, bob):
    shut = new_run()
    free = new_run(people={"blind": False})
    assert open_topics(bob, [shut.topic_id, free.topic_id]) == {free.topic_id}


def test_the_rule_costs_the_same_for_any_number_of_runs(
    new_run, bob, django_assert_max_num_queries
):
    runs = [new_run().pk for _ in range(8)]
    with django_assert_max_num_queries(2):
        open_among(bob, runs)


def test_an_event_tells_the_blind_neither_rewards_nor_versions():
    assert blind_payload("step_committed", {"step": 3, "reward": 0.7, "skipped": ""}) == {"step": 3}
    assert (
        blind_payload("weights_published", {"version": 3}) == {}
        and blind_payload("not known yet", {"reward": 1}) == {}
    )
