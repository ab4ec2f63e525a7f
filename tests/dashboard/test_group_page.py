"""A group's page: its rollouts side by side, why it is not used for training, and links to its
neighbours.
"""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from apps.buffer.models import Experience
from apps.dashboard.views.groups import MAX_SHOWN
from apps.rewards.models import Reward
from apps.rollouts.models import Group, Rollout


@pytest.fixture
def page(client, seeded):
    def ask(group: Group, user=None):
        client.force_login(user or seeded.alice)
        return client.get(f"/runs/lab/tone-7/groups/{group.pk}/")

    return ask


def test_rollouts_are_shown_side_by_side_with_mean_and_spread(page, seeded):
    group = seeded.rollout.group
    rollouts = list(group.rollouts.order_by("sample_index"))
    for rollout, value in zip(rollouts, (0.0, 0.5, 0.5, 1.0), strict=True):
        Experience.objects.filter(rollout=rollout).update(reward=value, advantage=value - 0.5)
    answer = page(group)
    assert [side["rollout"].pk for side in answer.context["sides"]] == [
        rollout.pk for rollout in rollouts
    ]
    found = answer.context["sum"]
    assert (found["mean"], found["best"], found["judged"]) == (0.5, 1.0, 4) and found[
        "spread"
    ] == pytest.approx(0.35355, abs=1e-4)
    assert found["dead"] == "" and "trained in step" in answer.content.decode()


def test_group_of_equal_rewards_is_reported_as_without_advantages(page, seeded):
    Experience.objects.filter(group=seeded.rollout.group).update(reward=0.5, advantage=0)
    assert "all advantages are 0" in page(seeded.rollout.group).content.decode()


def test_dropped_group_shows_its_reason(page, seeded):
    Group.objects.filter(pk=seeded.waiting.group_id).update(
        state="dropped", reason="the standard deviation of the rewards is not above 0"
    )
    assert (
        "Not used for training: the standard deviation of the rewards is not above 0."
        in page(seeded.waiting.group).content.decode()
    )


def test_large_group_is_paged_but_summarized_completely(page, seeded, client):
    group = seeded.rollout.group
    Experience.objects.filter(group=group).update(reward=0.5)
    own = group.rollouts.count()
    more = MAX_SHOWN + 6
    made = Rollout.objects.bulk_create(
        Rollout(
            run=seeded.run,
            group=group,
            sample_index=own + n,
            state="finished",
            text="so",
            last_version=0,
        )
        for n in range(more)
    )
    Experience.objects.bulk_create(
        Experience(
            run=seeded.run,
            group=group,
            rollout=rollout,
            reward=1.0,
            advantage=0,
            weight_version=0,
            state="ready",
        )
        for rollout in made
    )
    answer = page(group)
    found = answer.context["sum"]
    text = answer.content.decode()
    assert (found["judged"], found["best"]) == (own + more, 1.0)
    assert found["mean"] == pytest.approx((own * 0.5 + more) / (own + more))
    assert (
        len(answer.context["sides"]) == MAX_SHOWN
        and f"{own + more} replies to task" in text
        and "after →" in text
    )
    rest = client.get(
        f"/runs/lab/tone-7/groups/{group.pk}/", {"from": answer.context["stretch"]["after"]}
    )
    shown = [side["rollout"].pk for one in (answer, rest) for side in one.context["sides"]]
    assert shown == list(group.rollouts.order_by("sample_index").values_list("pk", flat=True))
    there = client.get(f"/runs/lab/tone-7/groups/{group.pk}/", {"rollout": made[-1].pk})
    assert made[-1].pk in [side["rollout"].pk for side in there.context["sides"]]
    beside = client.get(f"/rollouts/{made[-1].pk}/").content.decode()
    assert f"of {own + more} replies to one task" in beside and "View all" in beside


def test_page_links_to_the_previous_and_next_group(page, seeded):
    first, second, third = seeded.run.groups.order_by("draw_index")[:3]
    answer = page(second)
    assert (answer.context["older"], answer.context["newer"]) == (first, third)
    assert 'rel="prev"' in answer.content.decode() and page(first).context["older"] is None


def test_blind_rater_sees_only_the_replies(page, seeded):
    Reward.objects.filter(rollout__group=seeded.rollout.group, by=None).update(
        value=0.8317, reason="telltale"
    )
    Experience.objects.filter(group=seeded.rollout.group).update(reward=0.8317, advantage=0.8317)
    Rollout.objects.filter(group=seeded.rollout.group).update(last_version=867_130)
    answer = page(seeded.rollout.group, seeded.bob)
    text = answer.content.decode()
    assert answer.context["sum"] is None and "You rate this run blind" in text
    assert (
        not any(word in text for word in ("0.83", "telltale", "867130", "trained in"))
        and "simulated" not in text
    )


def test_number_of_queries_does_not_grow_with_the_group(page, seeded):
    group = seeded.rollout.group

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert page(group).status_code == 200
        return len(captured)

    few = queries()
    more = Rollout.objects.bulk_create(
        Rollout(run=seeded.run, group=group, sample_index=n, state="finished", text="x", turns=[])
        for n in range(50, 90)
    )
    Experience.objects.bulk_create(
        Experience(
            run=seeded.run, group=group, rollout=one, reward=0.5, advantage=0, weight_version=0
        )
        for one in more[:20]
    )
    assert queries() <= few + 1  # rows of removed rollouts, for those that were not trained
