"""A blind rater can nowhere read the judgements of others or of scorers, or which weights wrote a
reply.
"""

import re

import pytest
from django.db import connection

from apps.accounts.models import Membership, User
from apps.buffer.models import Experience
from apps.environments.models import EpisodeTurn
from apps.feedback.models import Rating
from apps.rewards.models import Reward
from apps.rollouts.models import Rollout
from apps.runs.models import Acknowledgement, LogLine, Metric, MetricSpan, Run, WeightVersion
from tests.crawling import addresses
from tests.played import play

# Marks in the rows that must not be read: a value, a version and a user that occur nowhere else.
VALUE = 0.8317
VERSION = 867_130_948
NAME = "zelda"
WORDS = "zeldas-critique"
PACE = ("explore_tokens_per_s", "step_seconds")  # speed reveals nothing about judgements
LEAKS = {
    "0.83": r"(?<!\d)0\.83",
    str(VERSION): str(VERSION),
    NAME: NAME,
    WORDS: WORDS,
}  # 10.83 may be part of a time


@pytest.fixture
def marked(seeded):
    """Give the seeded run recognizable judgements, and one rating by bob."""
    run = seeded.run
    zelda = User.objects.create_user(NAME, is_simulated=False)
    Membership.objects.create(project=run.project, user=zelda, role=Membership.Role.RATER)
    Reward.objects.filter(rollout__run=run, source="rule").update(value=VALUE)
    Reward.objects.filter(rollout__run=run, source="human").update(value=VALUE, by=zelda)
    Rating.objects.filter(run=run).update(rater=zelda, critique=WORDS)
    Experience.objects.filter(run=run).update(reward=VALUE, advantage=VALUE)
    Metric.objects.filter(run=run).exclude(name__in=PACE).update(value=VALUE)
    Rollout.objects.filter(run=run, state="finished").update(
        first_version=VERSION, last_version=VERSION
    )
    WeightVersion.objects.filter(run=run, version=run.published_version).update(version=VERSION)
    MetricSpan.objects.filter(run=run).update(mean=VALUE, low=VALUE, high=VALUE)
    Run.objects.filter(pk=run.pk).update(published_version=VERSION, reward_now=VALUE)
    Acknowledgement.objects.filter(weight_version__run=run).update(probe_gap=VALUE)
    LogLine.objects.create(
        event="scored",
        run=run,
        level=LogLine.Level.INFO,
        at=run.created_at,
        fields={"reward": VALUE},
    )
    play(run)
    EpisodeTurn.objects.filter(number__gt=0).update(
        reward=None
    )  # so that an episode's sum and the mean of all also equal the mark
    EpisodeTurn.objects.filter(reward__isnull=False).update(
        reward=VALUE, info={"score": VALUE, "by": NAME}
    )
    connection.check_constraints()
    seeded.run.refresh_from_db()
    return seeded


def read(client, marked, asked: tuple[str, ...] = ()) -> dict[str, set[str]]:
    """Return {address: its leaks} for all addresses open to this user, or for the given ones."""
    found = {}
    for address in asked or _everywhere(marked.run):
        answer = client.get(address)
        if answer.status_code == 200:
            text = b"".join(answer).decode() if answer.streaming else answer.content.decode()
            found[address] = {leak for leak, spelt in LEAKS.items() if re.search(spelt, text)}
    return found


def _everywhere(run: Run) -> list[str]:
    finished = run.rollouts.filter(state="finished")
    rollouts = [finished.filter(group__state=state).first().pk for state in ("admitted", "waiting")]
    return addresses(run, rollouts)


def test_blind_rater_sees_no_judgement_on_any_page_or_over_rest(client, marked):
    client.force_login(marked.bob)
    own = (
        Rating.objects.filter(run=marked.run).order_by("pk").first().pk
    )  # the one that the crawl opens
    Rating.objects.filter(pk=own).update(rater=marked.bob, critique="")
    WeightVersion.objects.filter(run=marked.run).update(parent=None)
    WeightVersion.objects.filter(run=marked.run).exclude(
        version=VERSION
    ).delete()  # the weights that an update shaped are the marked ones
    found = read(client, marked)
    assert {address: leaks for address, leaks in found.items() if leaks} == {}
    assert {
        "/runs/lab/tone-7/",
        "/rate/",
        "/live/",
        "/weights/",
        f"/ratings/{own}/",
        f"/api/v1/ratings/{own}/trace/",
    } <= set(found)


def test_pause_reason_is_hidden_from_blind_raters(client, marked):
    Run.objects.filter(pk=marked.run.pk).update(
        state="paused", state_reason=f"Suspected of hacking: {WORDS}"
    )
    Rating.objects.filter(run=marked.run).update(critique="")
    client.force_login(marked.bob)
    assert [address for address, leaks in read(client, marked).items() if WORDS in leaks] == []
    client.force_login(marked.alice)
    tell = (
        "/runs/",
        "/runs/lab/tone-7/",
        "/runs/lab/tone-7/alerts/",
        "/api/v1/runs/",
        f"/api/v1/runs/{marked.run.pk}/",
    )
    told = {address for address, leaks in read(client, marked, tell).items() if WORDS in leaks}
    assert told == set(tell)


def test_owner_sees_all_judgements(client, marked):
    client.force_login(marked.alice)
    marked_pages = (
        "/environments/",
        "/environments/lab/maze/",
        "/live/",
        "/runs/",
        "/weights/",
        "/runs/lab/tone-7/",
        "/runs/lab/tone-7/rollouts/",
        "/api/v1/rollouts/",
    )
    found = read(client, marked, marked_pages)
    assert set().union(*found.values()) >= {"0.83", str(VERSION), NAME}
    for address in marked_pages:
        assert found[address], f"nothing was marked on {address}"


def test_rater_of_a_run_that_is_not_blind_sees_judgements(client, marked):
    marked.run.config["people"]["blind"] = False
    marked.run.save()
    client.force_login(marked.bob)
    assert {"0.83", str(VERSION)} <= read(client, marked, ("/live/",))["/live/"]


def test_rater_sees_their_own_rating(client, marked):
    rating = Rating.objects.filter(run=marked.run).last()
    Rating.objects.filter(pk=rating.pk).update(rater=marked.bob)
    Reward.objects.filter(rating_reward__rating=rating).update(by=marked.bob, value=0.25)
    client.force_login(marked.bob)
    page = client.get(f"/rollouts/{rating.rollout_id}/").content.decode()
    assert "0.25" in page and not re.search(LEAKS["0.83"], page) and "Your ratings" in page


def test_outcome_filters_reveal_nothing_to_blind_raters(client, marked):
    client.force_login(marked.bob)
    of_run = "/runs/lab/tone-7/rollouts/"
    everything = client.get(of_run).context["rows"]
    assert len(client.get(of_run, {"fate": "trained"}).context["rows"]) == len(everything)
    assert len(client.get(of_run, {"from_step": 2}).context["rows"]) == len(everything)
    assert {row["station"] for row in everything} <= {
        "closed",
        "waiting",
        "scoring",
        "sampling",
        "judged",
    }
