"""The pages of environments and episodes: their content, access rights, and number of queries."""

import re
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from apps.accounts.models import AuditEntry, Membership, Project
from apps.dashboard.environments import describe_environments
from apps.environments.episode_opening import open_for
from apps.environments.models import Environment, Episode, EpisodeTurn
from apps.environments.openenv.sessions import begin_session
from apps.environments.playing import Action, observe, record_actions
from apps.rollouts.models import RolloutPayload
from apps.rollouts.payload import pack
from tests.dashboard.growing import grow_runs
from tests.played import name_in, play

MAX_QUERIES = {"environments": 14, "environment": 20, "episode": 15}
BIDI = "\u202egnp.exe"
MARK = re.compile(r"(?<!\d)0\.83")  # 10.83 may be part of a time


@pytest.fixture
def maze(seeded) -> Environment:
    name_in(seeded.run, "maze")
    return play(seeded.run)


@pytest.fixture
def alice_client(client, seeded):
    client.force_login(seeded.alice)
    return client


@pytest.fixture
def bob_client(client, seeded):
    """Return a client of bob, who rates the run blind."""
    client.force_login(seeded.bob)
    return client


def page(client, name, *args, **query) -> str:
    answer = client.get(reverse(name, args=args), query)
    assert answer.status_code == 200
    return answer.content.decode()


def queries(client, address: str) -> int:
    with CaptureQueriesContext(connection) as captured:
        assert client.get(address).status_code == 200
    return len(captured)


def break_it(maze: Environment) -> None:
    Environment.objects.filter(pk=maze.pk).update(
        failures=6, open_until=timezone.now() + timedelta(minutes=1), open_reason="it crashed"
    )


def done(maze: Environment) -> Episode:
    return maze.episodes.filter(state="done").order_by("pk").first()


def moves(client, episode: Episode) -> list:
    return client.get(reverse("episode", args=[episode.pk])).context["moves"].shown


def test_page_without_environments_explains_how_to_add_one(alice_client, seeded):
    html = page(alice_client, "environments")
    assert (
        "No environments yet" in html and "guess_number" in html and "/api/v1/environments/" in html
    )


def test_list_shows_the_state_and_results_of_each_environment(alice_client, maze):
    html = page(alice_client, "environments")
    [(one, _)] = alice_client.get(reverse("environments")).context["rows"]
    assert (one.live, one.ended) == (
        {"waiting": 1, "environment": 1, "policy": 1},
        {"done": 6, "failed": 1, "abandoned": 1},
    )
    assert (one.success, len(one.earned)) == (pytest.approx(2 / 5), 5)
    assert one.mean_reward == pytest.approx((0.98 + 0.74 + 0.0 + 0.99 - 0.01) / 5)
    assert "connects to rftweb" in html and "healthy" in html and "alice" in html


def test_turn_times_are_shown_for_environment_and_policy(alice_client, maze):
    [(one, _)] = alice_client.get(reverse("environments")).context["rows"]
    assert (one.environment_turn.p50, one.policy_turn.p95) == (
        pytest.approx(40),
        pytest.approx(250),
    )


def test_open_breaker_shows_its_reason_and_can_be_closed_by_an_owner(alice_client, maze):
    break_it(maze)
    html = page(alice_client, "environment", "lab", "maze")
    assert "breaker open" in html and "it crashed" in html and "Close the breaker now" in html
    html = alice_client.post(
        reverse("close-breaker", args=["lab", "maze"]), follow=True
    ).content.decode()
    maze.refresh_from_db()
    assert (maze.failures, maze.open_until, maze.open_reason) == (0, None, "")
    assert "runs open groups in it again" in html and "Close the breaker now" not in html
    assert AuditEntry.objects.get(action="breaker closed").target == "environment lab/maze"


def test_closing_a_closed_breaker_is_no_error(alice_client, maze):
    assert (
        "was closed already"
        in alice_client.post(
            reverse("close-breaker", args=["lab", "maze"]), follow=True
        ).content.decode()
    )


def test_rater_cannot_close_a_breaker(bob_client, maze):
    break_it(maze)
    assert "Close the breaker now" not in page(bob_client, "environment", "lab", "maze")
    assert bob_client.post(reverse("close-breaker", args=["lab", "maze"])).status_code == 403
    maze.refresh_from_db()
    assert maze.failures == 6


def test_page_shows_live_episodes_and_failures_with_reasons(alice_client, maze):
    html = page(alice_client, "environment", "lab", "maze")
    assert "its answer took longer than 30 s" in html and "tone-7" in html
    assert "1 ×" in html and "waiting for the policy" in html
    assert "/api/v1/environments/maze/episodes/" in html and "&quot;anyOf&quot;" in html


def test_refreshed_part_equals_the_part_of_the_page(alice_client, maze):
    whole = page(alice_client, "environment", "lab", "maze")
    part = page(alice_client, "environment-now", "lab", "maze")
    assert "Live episodes" in part and "<main" not in part
    headings = re.findall("<h2>.*?</h2>", part)
    assert headings and re.findall("<h2>.*?</h2>", whole)[: len(headings)] == headings


def test_episode_is_shown_turn_by_turn(alice_client, maze):
    html = page(alice_client, "episode", done(maze).pk)
    assert "@ . . #" in html and "you are there" in html and "end of the episode" in html
    assert (
        ">1.00</span>" in html and ">0.98</span>" in html and "250 ms" in html and "40 ms" in html
    )


def test_tokens_are_shaded_and_observations_shown_as_masked(alice_client, maze):
    html = page(alice_client, "episode", done(maze).pk)
    assert html.count("1 token read (masked") == 2 and html.count("data-probability=") == 3 * 2 + 2


def test_each_action_links_the_weights_that_sampled_it(alice_client, maze, seeded):
    episode = done(maze)
    kept = episode.rollout.tokens
    older = seeded.run.weight_versions.get(version=0)
    RolloutPayload.objects.filter(rollout=episode.rollout).update(
        data=pack(replace(kept, segments=((0, 0), (3, 1), (7, 9))))
    )
    html = page(alice_client, "episode", episode.pk)
    assert [[one.version for one in move.weights] for move in moves(alice_client, episode)] == [
        [0],
        [1],
        [1, 9],
        [],
    ]
    assert f'{reverse("run-weights", args=["lab", "tone-7"])}?before={older.pk + 1}">v0</a>' in html
    assert "</a>, v9</span>" in html  # a version that the run does not have has no link
    led = (
        alice_client.get(reverse("run-weights", args=["lab", "tone-7"]), {"before": older.pk + 1})
        .context["page"]
        .rows
    )
    assert led[0] == older
    live = maze.episodes.get(state="environment")
    live.seen.update(weight_version=1)
    assert [[one.version for one in move.weights] for move in moves(alice_client, live)] == [[1]]
    alice_client.force_login(seeded.bob)  # a blind rater
    assert [move.weights for move in moves(alice_client, episode)] == [()] * 4


def test_tokens_are_shown_only_for_the_last_attempt(alice_client, maze):
    episode = done(maze)
    earlier = maze.episodes.filter(state="abandoned").first()
    Episode.objects.filter(pk=earlier.pk).update(rollout=episode.rollout, fence=episode.fence - 1)
    EpisodeTurn.objects.filter(episode=earlier).update(first=0, tokens=2)
    html = page(alice_client, "episode", earlier.pk)
    assert (
        "data-probability=" not in html
        and f"/episodes/{episode.pk}/" in html
        and "a later attempt" in html
    )
    assert "an earlier attempt" in page(alice_client, "episode", episode.pk)


@pytest.mark.parametrize(
    ("which", "words"),
    [(4, "late</span>"), (5, "the environment gave no reward"), (6, "Failed, without a reward")],
)
def test_missing_reward_is_explained(alice_client, maze, which, words):
    assert words in page(alice_client, "episode", maze.episodes.order_by("pk")[which].pk)


def test_episode_waiting_for_its_reward_shows_the_deadline_and_refreshes(alice_client, maze):
    until = timezone.now() + timedelta(hours=1)
    Episode.objects.filter(pk=done(maze).pk).update(reward_until=until)
    shown = page(alice_client, "episode", done(maze).pk)
    assert (
        "waits for its reward until" in shown
        and f"{until:%Y-%m-%d %H:%M:%S}" in shown
        and "data-refresh-ms" in shown
    )


def test_environment_page_links_to_a_form_for_its_token(alice_client, maze, seeded):
    assert "?scope=env:write:maze#tokens" in page(alice_client, "environment", "lab", "maze")
    form = alice_client.get(reverse("settings"), {"scope": "env:write:maze"}).context["form"]
    assert form["scopes"].value() == ["env:write:maze"]
    asked = {"name": "a maze", "scopes": ["env:write:maze", f"agent:{seeded.run.pk}"], "days": "7"}
    assert alice_client.post(reverse("issue-token"), asked).status_code == 200
    token = seeded.alice.tokens.get()
    assert token.may("env:write", "maze") and token.may("agent", str(seeded.run.pk))
    assert timedelta(days=6) < token.expires_at - timezone.now() <= timedelta(days=7)


@pytest.mark.parametrize("scope", ["env:write:maze", "env:write:*", "agent:1"])
def test_rater_cannot_create_a_token_for_an_environment_or_run(bob_client, maze, seeded, scope):
    asked = {"name": "mine", "scopes": [scope.replace("1", str(seeded.run.pk))]}
    assert bob_client.post(reverse("issue-token"), asked).status_code == 422
    assert not seeded.bob.tokens.exists()


def test_live_episode_refreshes_and_ended_one_does_not(alice_client, maze):
    assert "data-refresh-ms" in page(alice_client, "episode", maze.episodes.get(state="policy").pk)
    assert "data-refresh-ms" not in page(alice_client, "episode", done(maze).pk)


def test_long_episode_is_paged_and_long_text_shown_on_request(alice_client, maze):
    episode = done(maze)
    long = "x" * 10_000
    more = [
        EpisodeTurn(episode=episode, number=4 + n, observation=f"see {4 + n}.", action=long)
        for n in range(46)
    ]
    EpisodeTurn.objects.bulk_create(more)
    html = page(alice_client, "episode", episode.pk)
    assert "?from=20" in html and "see 19." in html and "see 20." not in html
    html = page(alice_client, "episode", episode.pk, **{"from": 40})
    assert "see 40." in html and "?from=20" in html and "?from=60" not in html
    EpisodeTurn.objects.filter(episode=episode, number=45).update(observation=long)
    assert "4,000 more characters" in page(alice_client, "episode", episode.pk, **{"from": 40})
    assert long in page(alice_client, "episode", episode.pk, **{"from": 45, "whole": 45})


@pytest.mark.parametrize("query", [{"from": "x"}, {"from": "-1"}, {"whole": "9" * 30}])
def test_invalid_turn_number_is_404(alice_client, maze, query):
    assert alice_client.get(reverse("episode", args=[done(maze).pk]), query).status_code == 404


def test_blind_rater_sees_texts_but_no_rewards(bob_client, maze):
    EpisodeTurn.objects.filter(reward__isnull=False).update(reward=0.8317, info={"score": 0.8317})
    for address in ("environments", "environment"):
        assert not MARK.search(
            page(bob_client, address, *(["lab", "maze"] if address == "environment" else []))
        )
    html = page(bob_client, "episode", done(maze).pk)
    assert (
        not MARK.search(html)
        and "data-probability=" not in html
        and "You rate this run blind" in html
        and "@ . . #" in html
    )


def test_a_viewer_sees_rewards(client, seeded, maze):
    Membership.objects.create(
        project=seeded.run.project, user=seeded.carol, role=Membership.Role.VIEWER
    )
    client.force_login(seeded.carol)
    assert ">0.98</span>" in page(client, "episode", done(maze).pk)


def test_pages_are_404_for_a_stranger(client, seeded, maze):
    client.force_login(seeded.carol)
    for name in ("environment", "environment-now"):
        assert client.get(reverse(name, args=["lab", "maze"])).status_code == 404
    for name in ("episode", "episode-now"):
        assert client.get(reverse(name, args=[done(maze).pk])).status_code == 404
    assert client.post(reverse("close-breaker", args=["lab", "maze"])).status_code == 404
    assert "maze" not in page(client, "environments")


def test_texts_of_both_sides_are_escaped(alice_client, maze):
    episode = done(maze)
    words = f"<script>window.pwned=1</script>{BIDI}"
    EpisodeTurn.objects.filter(episode=episode).update(observation=words, info={words: words})
    EpisodeTurn.objects.filter(episode=episode, number__lt=3).update(
        action=words, reason=words, first=None, reward=None
    )
    Episode.objects.filter(pk=episode.pk).update(reason=words, key=words)
    Environment.objects.update(
        title=words[:200], description=words, open_reason=words, version=words[:40]
    )
    places = [
        page(alice_client, "episode", episode.pk),
        page(alice_client, "environment", "lab", "maze"),
    ]
    for html in [*places, page(alice_client, "environments")]:
        assert "<script>window" not in html
    assert (
        places[0].count(
            f'<p class="words" dir="auto">&lt;script&gt;window.pwned=1&lt;/script&gt;{BIDI}</p>'
        )
        == 4 + 3
    )
    assert f"<bdi>&lt;script&gt;window.pwned=1&lt;/script&gt;{BIDI}</bdi>" in places[0]


def test_rollout_links_to_its_episode_and_run_to_its_environment(alice_client, maze, seeded):
    episode = done(maze)
    assert reverse("episode", args=[episode.pk]) in page(
        alice_client, "rollout", episode.rollout_id
    )
    html = page(alice_client, "run", "lab", "tone-7")
    assert reverse("environment", args=["lab", "maze"]) in html
    played = alice_client.get(reverse("run", args=["lab", "tone-7"])).context["played"]
    assert (played.live, played.newest["failed"], played.newest["done"]) == (3, 1, 6)


def test_unregistered_environment_of_a_run_is_reported(alice_client, seeded):
    name_in(seeded.run, "elsewhere")
    assert "is not registered yet" in page(alice_client, "run", "lab", "tone-7")


def test_number_of_queries_does_not_grow_with_episodes_and_turns(alice_client, maze, seeded):
    episode = done(maze)
    places = {
        "environments": reverse("environments"),
        "environment": reverse("environment", args=["lab", "maze"]),
    }
    places["episode"] = reverse("episode", args=[episode.pk])
    few = {name: queries(alice_client, address) for name, address in places.items()}
    Episode.objects.bulk_create(
        Episode(
            environment=maze,
            run=seeded.run,
            seed=n,
            turn_limit=3,
            state="done",
            reason="over",
            closed_at=timezone.now(),
        )
        for n in range(300)
    )
    EpisodeTurn.objects.bulk_create(
        EpisodeTurn(episode=episode, number=4 + n, observation="see") for n in range(46)
    )
    assert {name: queries(alice_client, address) for name, address in places.items()} == few
    assert {name: count for name, count in few.items() if count > MAX_QUERIES[name]} == {}


def test_number_of_queries_does_not_grow_with_environments_and_runs(alice_client, maze, seeded):
    few = queries(alice_client, reverse("environments"))
    project = Project.objects.get(slug="lab")
    Environment.objects.bulk_create(
        Environment(project=project, name=f"maze-{n}", kind="push") for n in range(60)
    )
    grow_runs(seeded.run, 10)
    assert (
        queries(alice_client, reverse("environments")) <= few
    )  # those of the first page have no episodes to query


def test_only_the_newest_ended_episodes_are_counted(alice_client, maze, seeded):
    Episode.objects.bulk_create(
        Episode(
            environment=maze,
            run=seeded.run,
            seed=n,
            turn_limit=3,
            state="failed",
            reason="it crashed",
            closed_at=timezone.now(),
        )
        for n in range(120)
    )
    [(one, _)] = alice_client.get(reverse("environments")).context["rows"]
    assert (
        one.ended == {"failed": 100}
        and one.reasons == [("it crashed", 100)]
        and one.success is None
    )


def test_episodes_of_external_clients_are_shown_and_not_counted_for_a_policy(
    alice_client, bob_client, maze, seeded
):
    before = page(alice_client, "environment", "lab", "maze")
    assert "/openenv/lab/maze" in before and "?scope=env:play:maze#tokens" in before
    session = begin_session(maze, seeded.alice, "ws")
    rewarded = open_for(session, maze, 3, {"size": 5})
    for number, fields in enumerate([{}, {"reward": 1.0, "done": True}]):
        Episode.objects.filter(pk=rewarded.pk).update(state="environment")
        observe(rewarded.pk, number, "a fork", **fields)
        record_actions([Action(rewarded.pk, number, "left", None, 0)])
    live = open_for(session, maze, 3, {})
    [fragment] = [bob_client.get(reverse("environment-now", args=["lab", "maze"])).content.decode()]
    for seen in (page(alice_client, "environment", "lab", "maze"), fragment):
        assert "External clients" in seen and f">external: {seeded.alice.username}<" in seen
        assert f'href="/episodes/{rewarded.pk}/"' in seen and f'href="/episodes/{live.pk}/"' in seen
        assert "/openenv/lab/maze" in seen  # the refreshed part is complete
    for client in (alice_client, bob_client):  # a blind rater sees what is no run's
        told = page(client, "episode", rewarded.pk)
        assert "The episode is not used in training" in told and "left" in told and "1" in told
    assert rewarded.pk not in describe_environments([maze], seeded.alice)[0].earned
