"""Who sees the judgements of a run's replies."""

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


def test_rater_is_blind_unless_the_run_says_otherwise(new_run, bob):
    assert not sees_judgements(bob, new_run())
    assert sees_judgements(bob, new_run(people={"blind": False}))


def test_owners_researchers_and_administrators_see_all_judgements(run, alice, admin, carol):
    Membership.objects.create(project=run.project, user=carol, role=Membership.Role.RESEARCHER)
    assert [sees_judgements(person, run) for person in (alice, admin, carol)] == [True, True, True]


def test_viewer_sees_judgements_unless_named_as_rater_in_person_or_by_group(
    new_run, project, viewer
):
    RaterGroup.objects.create(project=project, name="nurses").members.add(viewer)
    plain = new_run()
    by_name = new_run(people={"raters": {"people": ["vera"]}})
    by_group = new_run(people={"raters": {"groups": ["doctors", "nurses"]}})
    others = new_run(people={"raters": {"people": ["bob"], "groups": ["doctors"]}})
    assert open_among(viewer, [plain.pk, by_name.pk, by_group.pk, others.pk]) == {
        plain.pk,
        others.pk,
    }


def test_old_run_without_the_setting_is_blind(run, bob, viewer):
    del run.config["people"]
    run.save()
    assert not sees_judgements(bob, run) and sees_judgements(viewer, run)


def test_non_members_and_anonymous_users_see_nothing_even_of_an_open_run(new_run, carol):
    run = new_run(people={"blind": False})
    assert not sees_judgements(carol, run)
    assert not judged_openly(AnonymousUser()).exists()


def test_owner_of_another_project_sees_no_judgements_here(new_run, bob):
    Membership.objects.create(
        project=Project.objects.create(slug="hers", title="Hers"),
        user=bob,
        role=Membership.Role.OWNER,
    )
    assert open_among(bob, [new_run().pk]) == set()


def test_topics_have_the_visibility_of_their_runs(new_run, bob):
    shut = new_run()
    free = new_run(people={"blind": False})
    assert open_topics(bob, [shut.topic_id, free.topic_id]) == {free.topic_id}


def test_visibility_of_many_runs_takes_two_queries(new_run, bob, django_assert_max_num_queries):
    runs = [new_run().pk for _ in range(8)]
    with django_assert_max_num_queries(2):
        open_among(bob, runs)


def test_events_for_blind_users_contain_no_rewards_or_versions():
    assert blind_payload("step_committed", {"step": 3, "reward": 0.7, "skipped": ""}) == {"step": 3}
    assert (
        blind_payload("weights_published", {"version": 3}) == {}
        and blind_payload("not known yet", {"reward": 1}) == {}
    )
