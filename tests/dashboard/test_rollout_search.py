"""Searching the list of a run's rollouts; without a suitable index, a limited number of rows at a
time.
"""

from urllib.parse import parse_qsl

import pytest
from django.db import connection

from apps.buffer.models import Experience, StepItem
from apps.dashboard import reward_bars, rollout_search, text_search
from apps.feedback.models import Rating
from apps.pipelines.models import CutRollout
from apps.rewards.models import Reward
from apps.rollouts.full_text_search import MatchesQuery, ParsedQuery
from apps.rollouts.models import Rollout
from apps.runs.models import Run

ADDRESS = "/runs/lab/tone-7/rollouts/"


@pytest.fixture
def alice_client(client, seeded):
    client.force_login(seeded.alice)
    return client


def found(client, **asked) -> set[int]:
    """Return the ids of all rollouts that the list shows for this search."""
    ids = set()
    query = None
    while query != "":
        answer = client.get(ADDRESS + query if query else ADDRESS, None if query else asked)
        ids |= {row["rollout"].pk for row in answer.context["rows"]}
        query = answer.context["page"].older
    return ids


def ended(run: Run) -> set[int]:
    return set(run.rollouts.exclude(state="sampling").values_list("pk", flat=True))


@pytest.mark.parametrize(
    "text",
    [
        "peculiar",
        "PECULIAR answer",
        "pecul*",
        '"peculiar 100% ANSWER"',
        "peculiar -flat",
        "answer! peculiar?",
        "größe",
    ],
)
def test_words_are_found_in_replies_in_any_case(alice_client, seeded, text):
    Rollout.objects.filter(pk=seeded.rollout.pk).update(
        text="Quite a Peculiar 100% answer, in Größe 7"
    )
    assert found(alice_client, text=text) == {seeded.rollout.pk}


@pytest.mark.parametrize(
    "text", ["culiar", '"answer peculiar"', "peculiar -answer", "peculiar purple", "peculiars"]
)
def test_words_that_do_not_occur_find_nothing(alice_client, seeded, text):
    Rollout.objects.filter(pk=seeded.rollout.pk).update(text="Quite a peculiar 100% answer")
    assert found(alice_client, text=text) == set()


def test_match_is_highlighted_and_escaped(alice_client, seeded):
    Rollout.objects.filter(pk=seeded.rollout.pk).update(text="word " * 300 + "Peculiar <b>tail</b>")
    text = alice_client.get(ADDRESS, {"text": "peculiar"}).content.decode()
    assert "<mark>Peculiar</mark> &lt;b&gt;tail" in text and text.count("<mark>") == 1


def test_exact_text_is_found_within_words(alice_client, seeded):
    Rollout.objects.filter(pk=seeded.rollout.pk).update(text="Quite a Peculiar 100% answer")
    assert found(alice_client, exact="culiar 100%") == {seeded.rollout.pk}


def test_word_query_can_use_the_index(seeded):
    """Check that the index can serve the query at all: with few rows another plan is cheaper."""
    asked = MatchesQuery(
        ParsedQuery.read('"sorry about" pleas* -rude').within(seeded.run.pk, range(3))
    )
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")
    plan = Rollout.objects.exclude(state=Rollout.State.SAMPLING).filter(asked).order_by().explain()
    assert "Bitmap Index Scan on rollouts_by_words" in plan


def test_word_search_continues_part_by_part_in_both_directions(alice_client, seeded, monkeypatch):
    """Search as in a run of millions, where a page ends before all rows were searched."""
    first = seeded.run.rollouts.order_by("pk").first()
    far = Rollout.objects.create(
        pk=first.pk + 40 * 4096,
        run=seeded.run,
        group=first.group,
        sample_index=900,
        state="finished",
        text="peculiar",
        turns=[],
    )
    Rollout.objects.filter(pk=first.pk).update(text="peculiar")
    monkeypatch.setattr(text_search, "LOOKS", (1, 4))
    page = alice_client.get(ADDRESS, {"text": "peculiar"}).context["page"]
    assert [row.pk for row in page.rows] == [far.pk] and page.is_cut and page.older
    assert found(alice_client, text="peculiar") == {first.pk, far.pk}
    up = alice_client.get(ADDRESS, {"text": "peculiar", "after": first.pk}).context["page"]
    assert up.rows == [] and up.is_cut and up.newer.startswith("?text=peculiar&after=")


@pytest.mark.parametrize(
    "text", ["?!", "<br>", "a*", '-"not this"', " ".join("abcdefghijklmnopqrstuvwxyz")]
)
def test_search_without_a_searchable_word_shows_an_error(alice_client, seeded, text):
    answer = alice_client.get(ADDRESS, {"text": text})
    assert answer.status_code == 200 and list(answer.context["form"].errors) == ["text"]


def test_rollouts_are_found_by_task_number(alice_client, seeded):
    task = seeded.rollout.group.task
    of_it = ended(seeded.run) & set(
        Rollout.objects.filter(group__task=task).values_list("pk", flat=True)
    )
    assert found(alice_client, task=task.index) == of_it


def test_rollouts_are_found_by_reward_range(alice_client, seeded):
    Experience.objects.update(reward=0.2)
    Reward.objects.update(value=0.2)
    high = Experience.objects.order_by("pk").first()
    judged = seeded.waiting
    Experience.objects.filter(pk=high.pk).update(reward=0.7)
    Reward.objects.filter(rollout=judged).update(value=0.75)
    assert found(alice_client, reward_from=0.6, reward_to=0.8) == {high.rollout_id, judged.pk}


def test_rollouts_are_found_by_the_version_that_sampled_them(alice_client, seeded):
    Rollout.objects.update(first_version=1, last_version=1)
    Rollout.objects.filter(pk=seeded.rollout.pk).update(first_version=2, last_version=4)
    assert found(alice_client, version=3) == {seeded.rollout.pk}


def test_rollouts_are_found_by_the_operator_that_dropped_them(alice_client, seeded):
    CutRollout.objects.create(
        run=seeded.run,
        rollout=seeded.rollout,
        place=0,
        operator="length",
        reason="9 tokens, more than 3",
    )
    assert (
        found(alice_client, operator="length") == {seeded.rollout.pk}
        and found(alice_client, operator="lengths") == set()
    )


def test_rollouts_are_found_by_their_rater(alice_client, seeded):
    judged = {
        rating.rollout_id for rating in Rating.objects.filter(run=seeded.run, rater=seeded.bob)
    }
    assert found(alice_client, rater="bob") == judged != set()
    assert found(alice_client, rater="nobody-of-this-name") == set()


def test_interrupted_search_continues_and_misses_nothing(alice_client, seeded, monkeypatch):
    monkeypatch.setattr(rollout_search, "LOOKED_THROUGH", 7)
    oldest = seeded.run.rollouts.order_by("pk").first()
    Rollout.objects.filter(pk=oldest.pk).update(text="Peculiar")
    first = alice_client.get(ADDRESS, {"exact": "peculiar"})
    assert first.context["page"].is_cut and "Search older rollouts" in first.content.decode()
    assert found(alice_client, exact="peculiar") == {oldest.pk}


@pytest.mark.parametrize(
    "asked",
    [
        {"from_step": 1, "exact": "zzzz"},
        {"text": "you", "rater": "nobody"},
        {"fate": "dropped", "exact": "zzzz"},
        {"fate": "failed", "exact": "zzzz"},
        {"text": "you", "from_step": 1, "exact": "zzzz"},
        {"fate": "trained", "text": "zzzz"},
    ],
)
def test_search_without_an_index_stops_after_a_limited_number_of_rows(
    alice_client, seeded, monkeypatch, asked
):
    monkeypatch.setattr(rollout_search, "LOOKED_THROUGH", 3)
    page = alice_client.get(ADDRESS, asked).context["page"]
    assert page.is_cut and page.older and found(alice_client, **asked) == set()


def test_search_within_one_step_examines_only_its_rollouts(alice_client, seeded, monkeypatch):
    trained = set(
        StepItem.objects.filter(step__run=seeded.run, step__number=1).values_list(
            "experience__rollout", flat=True
        )
    )
    monkeypatch.setattr(rollout_search, "LOOKED_THROUGH", len(trained) + 1)
    answer = alice_client.get(ADDRESS, {"from_step": 1, "to_step": 1, "tokens_from": 0})
    assert {row["rollout"].pk for row in answer.context["rows"]} == trained and not answer.context[
        "page"
    ].is_cut
    assert not answer.context["page"].older


def test_search_for_newer_rows_is_limited_too(alice_client, seeded, monkeypatch):
    monkeypatch.setattr(rollout_search, "LOOKED_THROUGH", 7)
    oldest = seeded.run.rollouts.order_by("pk").first()
    answer = alice_client.get(ADDRESS, {"rater": "nobody", "after": oldest.pk})
    assert answer.context["page"].is_cut and "after=" in answer.context["page"].newer


def test_rollouts_are_found_by_source_scorer_and_reward_range(alice_client, seeded):
    Reward.objects.filter(rollout__run=seeded.run).update(value=0.2)
    Reward.objects.filter(rollout=seeded.waiting, source="rule").update(value=0.75)
    assert found(alice_client, source="rule", scorer="tone", reward_from=0.6) == {seeded.waiting.pk}
    assert (
        found(alice_client, source="human", reward_from=0.6)
        == found(alice_client, scorer="math")
        == set()
    )
    current = Reward.objects.filter(is_current=True)
    people = set(current.by_people().values_list("rollout_id", flat=True))
    simulated = set(current.simulated().values_list("rollout_id", flat=True))
    assert found(alice_client, source="human") == people != set()
    assert found(alice_client, source="simulated") == simulated != set()


def test_rollouts_are_found_by_stop_reason_length_and_turns(alice_client, seeded):
    turns = [{"role": "assistant", "start": 0, "end": 1, "first": 0, "tokens": 1}] * 3
    Rollout.objects.filter(pk=seeded.rollout.pk).update(
        stop_reason="length", completion_tokens=7_000, turns=turns
    )
    for asked in ({"stop": "leng"}, {"tokens_from": 6_999, "tokens_to": 7_000}, {"turns": 3}):
        assert found(alice_client, **asked) == {seeded.rollout.pk}
    assert (
        found(alice_client, turns=1) == ended(seeded.run) and found(alice_client, turns=4) == set()
    )


def test_synthetic_rollouts_are_listed_only_on_request(alice_client, seeded):
    Rollout.objects.filter(pk=seeded.rollout.pk).update(origin="synthetic")
    assert found(alice_client, origin="synthetic") == {seeded.rollout.pk}
    assert (
        seeded.rollout.pk not in found(alice_client)
        and found(alice_client, origin="expert") == set()
    )


def test_list_links_to_the_previous_and_next_step(alice_client, seeded):
    first = alice_client.get(ADDRESS, {"fate": "trained"})
    assert first.context["steps"]["older"] == (3, "?fate=trained&from_step=3&to_step=3")
    at = alice_client.get(ADDRESS, {"from_step": 2, "to_step": 2})
    assert (at.context["steps"]["older"][0], at.context["steps"]["newer"][0]) == (1, 3)
    assert {row["step"] for row in at.context["rows"]} == {2}


# -- the bars beside the list


def bars(client, **asked):
    return client.get(ADDRESS + "rewards/", asked)


def test_bars_count_the_rewards_of_matching_rollouts(alice_client, seeded):
    Experience.objects.update(reward=0.2)
    Reward.objects.filter(rollout__run=seeded.run).update(value=0.2)
    Experience.objects.filter(pk=Experience.objects.order_by("pk").first().pk).update(reward=0.7)
    found = bars(alice_client).context["bars"]
    assert (
        found.is_all
        and sum(bar.count for bar in found.bars) == found.judged
        and found.bars[7].count == 1
    )


def test_bar_links_to_its_reward_range(alice_client, seeded):
    text = bars(alice_client, fate="trained", before="7").content.decode()
    assert "?fate=trained&amp;reward_from=0.9&amp;reward_to=1" in text and "before" not in text


def test_bars_say_how_many_rollouts_they_count(alice_client, seeded, monkeypatch):
    monkeypatch.setattr(reward_bars, "SAMPLE", 5)
    found = bars(alice_client).context["bars"]
    assert found.fit == 5 and not found.is_all
    assert 'The newest <span class="num">5</span> matches' in bars(alice_client).content.decode()


def test_link_of_a_bar_lists_exactly_the_rollouts_it_counts(alice_client, seeded):
    """Include rewards on an edge, rewards of rollouts that were never admitted, and the lowest
    reward.
    """
    for number, experience in enumerate(Experience.objects.order_by("pk")):
        Experience.objects.filter(pk=experience.pk).update(
            reward=[0.1234567891, 0.5, 0.6, 1.5][number % 4]
        )
    Reward.objects.filter(source="rule").update(value=0.3)
    answer = bars(alice_client)
    counted = {bar.low: bar.count for bar, _ in answer.context["links"]}
    assert sum(counted.values()) == answer.context["bars"].judged
    for bar, link in answer.context["links"]:
        assert len(found(alice_client, **dict(parse_qsl(link.lstrip("?"))))) == bar.count


def test_the_median_of_an_even_count_lies_between_the_two(alice_client, seeded):
    Reward.objects.filter(rollout__run=seeded.run).update(value=None, reason="broke")
    kept = list(Experience.objects.order_by("pk").values_list("pk", flat=True)[:4])
    Experience.objects.exclude(pk__in=kept).update(reward=0.0)
    Rollout.objects.exclude(experiences__in=kept).update(origin="synthetic")
    for pk, value in zip(kept, (0.0, 0.0, 1.0, 1.0), strict=True):
        Experience.objects.filter(pk=pk).update(reward=value)
    assert bars(alice_client).context["bars"].middle == 0.5


def test_bars_of_one_source_count_only_values_in_the_range(alice_client, seeded):
    Reward.objects.filter(source="human").update(value=0.2)
    one = (
        Reward.objects.filter(source="human", is_current=True, by__isnull=False)
        .order_by("pk")
        .first()
    )
    Reward.objects.create(
        rollout=one.rollout, source="human", scorer="stars", by=seeded.carol, value=0.9
    )
    shown = bars(alice_client, source="human", reward_from=0.8, reward_to=1).context["bars"]
    assert shown.judged == 1


def test_blind_rater_gets_no_bars(client, seeded):
    client.force_login(seeded.bob)
    assert (
        bars(client).status_code == 403
        and "rollouts/rewards" not in client.get(ADDRESS).content.decode()
    )


def test_search_fields_are_kept_in_the_tab_links(alice_client, seeded):
    answer = alice_client.get(ADDRESS, {"text": "the", "task": 3})
    assert "?fate=trained&amp;text=the&amp;task=3" in answer.content.decode()


@pytest.mark.parametrize(
    "asked",
    [
        {"task": "x"},
        {"task": "-1"},
        {"reward_from": "nan"},
        {"reward_to": "much"},
        {"version": "9" * 30},
        {"text": "a" * 300},
    ],
)
def test_invalid_search_shows_an_error_at_its_field(alice_client, seeded, asked):
    answer = alice_client.get(ADDRESS, asked)
    assert answer.status_code == 200 and set(answer.context["form"].errors) == set(asked)
    assert 'class="field-error"' in answer.content.decode() and len(answer.context["rows"]) == 50


def test_blind_rater_can_search_only_by_words_and_task(client, seeded):
    Rollout.objects.filter(pk=seeded.rollout.pk).update(text="Peculiar")
    client.force_login(seeded.bob)
    assert found(client, text="peculiar") == {seeded.rollout.pk}
    for asked in (
        {"reward_from": "2"},
        {"version": "77"},
        {"rater": "alice"},
        {"operator": "length"},
        {"source": "model"},
        {"scorer": "math"},
        {"origin": "expert"},
        {"from_step": "1"},
    ):
        assert found(client, **asked) == ended(seeded.run)


def test_task_search_in_a_run_with_several_tasksets_needs_the_taskset(alice_client, seeded):
    taskset = seeded.run.taskset
    task = seeded.rollout.group.task
    same = {rollout.pk for rollout in Rollout.objects.filter(group__task=task)}
    assert found(alice_client, task=task.index, taskset=taskset.slug) == same
    assert found(alice_client, task=task.index, taskset="another") == set()
