"""The list of a run's rollouts is searched, a bounded stretch at a time where no index finds what is asked for."""

import pytest

from apps.buffer.models import Experience
from apps.dashboard import rollout_search
from apps.feedback.models import Rating
from apps.pipelines.models import CutRollout
from apps.rewards.models import Reward
from apps.rollouts.models import Rollout
from apps.runs.models import Run

ADDRESS = "/runs/lab/tone-7/rollouts/"


@pytest.fixture
def alice_client(client, seeded):
    client.force_login(seeded.alice)
    return client


def found(client, **asked) -> set[int]:
    """Ids of all rollouts that the list shows for this search."""
    ids, query = set(), None
    while query != "":
        answer = client.get(ADDRESS + query if query else ADDRESS, None if query else asked)
        ids |= {row["rollout"].pk for row in answer.context["rows"]}
        query = answer.context["page"].older
    return ids


def ended(run: Run) -> set[int]:
    return set(run.rollouts.exclude(state="sampling").values_list("pk", flat=True))


def test_words_are_found_in_replies_however_they_are_cased(alice_client, seeded):
    Rollout.objects.filter(pk=seeded.rollout.pk).update(text="Quite a Peculiar 100% answer")
    assert found(alice_client, text="peculiar 100%") == {seeded.rollout.pk}


def test_a_task_is_found_by_its_number(alice_client, seeded):
    task = seeded.rollout.group.task
    of_it = ended(seeded.run) & set(Rollout.objects.filter(group__task=task).values_list("pk", flat=True))
    assert found(alice_client, task=task.index) == of_it


def test_rewards_are_found_within_a_range(alice_client, seeded):
    Experience.objects.update(reward=0.2)
    Reward.objects.update(value=0.2)
    high, judged = Experience.objects.order_by("pk").first(), seeded.waiting
    Experience.objects.filter(pk=high.pk).update(reward=0.7)
    Reward.objects.filter(rollout=judged).update(value=0.75)
    assert found(alice_client, reward_from=0.6, reward_to=0.8) == {high.rollout_id, judged.pk}


def test_what_a_version_sampled_is_found(alice_client, seeded):
    Rollout.objects.update(first_version=1, last_version=1)
    Rollout.objects.filter(pk=seeded.rollout.pk).update(first_version=2, last_version=4)
    assert found(alice_client, version=3) == {seeded.rollout.pk}


def test_what_an_operator_left_out_is_found(alice_client, seeded):
    CutRollout.objects.create(run=seeded.run, rollout=seeded.rollout, place=0, operator="length", reason="9 tokens, more than 3")
    assert found(alice_client, operator="length") == {seeded.rollout.pk} and found(alice_client, operator="lengths") == set()


def test_what_a_person_judged_is_found(alice_client, seeded):
    judged = {rating.rollout_id for rating in Rating.objects.filter(run=seeded.run, rater=seeded.bob)}
    assert found(alice_client, rater="bob") == judged != set()
    assert found(alice_client, rater="nobody-of-this-name") == set()


def test_a_search_goes_on_where_it_stopped_and_loses_nothing(alice_client, seeded, monkeypatch):
    monkeypatch.setattr(rollout_search, "TEXTS_READ", 7)
    oldest = seeded.run.rollouts.order_by("pk").first()
    Rollout.objects.filter(pk=oldest.pk).update(text="Peculiar")
    first = alice_client.get(ADDRESS, {"text": "peculiar"})
    assert first.context["page"].is_cut and "Look through older ones" in first.content.decode()
    assert found(alice_client, text="peculiar") == {oldest.pk}


def test_newer_rows_are_looked_through_in_their_turn(alice_client, seeded, monkeypatch):
    monkeypatch.setattr(rollout_search, "LOOKED_THROUGH", 7)
    oldest = seeded.run.rollouts.order_by("pk").first()
    answer = alice_client.get(ADDRESS, {"rater": "nobody", "after": oldest.pk})
    assert answer.context["page"].is_cut and "after=" in answer.context["page"].newer


def test_searches_hold_together_with_the_tabs(alice_client, seeded):
    answer = alice_client.get(ADDRESS, {"text": "the", "task": 3})
    assert "?fate=trained&amp;text=the&amp;task=3" in answer.content.decode()


@pytest.mark.parametrize(
    "asked",
    [{"task": "x"}, {"task": "-1"}, {"reward_from": "nan"}, {"reward_to": "much"}, {"version": "9" * 30}, {"text": "a" * 300},
     {"text": "\x00"}],
)  # fmt: skip
def test_a_search_that_means_nothing_is_told_at_its_field(alice_client, seeded, asked):
    answer = alice_client.get(ADDRESS, asked)
    assert answer.status_code == 200 and set(answer.context["form"].errors) == set(asked)
    assert 'class="wrong"' in answer.content.decode() and len(answer.context["rows"]) == 50


def test_who_judges_blind_searches_by_words_and_task_alone(client, seeded):
    Rollout.objects.filter(pk=seeded.rollout.pk).update(text="Peculiar")
    client.force_login(seeded.bob)
    assert found(client, text="peculiar") == {seeded.rollout.pk}
    for asked in ({"reward_from": "2"}, {"version": "77"}, {"rater": "alice"}, {"operator": "length"}):
        assert found(client, **asked) == ended(seeded.run)
