"""In a run that serves, each call without a known name starts its own session, whose first messages
are its task.
"""

from datetime import timedelta

import httpx
import openai
import pytest
from django.utils import timezone

from apps.accounts.models import Token
from apps.environments.judging import send_on
from apps.environments.models import Environment, Episode, TurnedAway
from apps.feedback.models.lessons import Demonstration
from apps.policies.models import Policy
from apps.rollouts.models import Group, Rollout
from apps.runs.models import Run
from apps.tasksets.messages import list_pictures
from apps.tasksets.models import Picture
from tests.environments.agents.test_chat import ASKED, IN_A, ask, refusal
from tests.serving import SERVED, written
from tests.tasksets.test_messages import HOW_MANY, data_url, png, shown

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run(agent, new_run) -> Run:
    return new_run(**SERVED, serve={}, max_staleness=0)


@pytest.fixture
def post(address, key):
    def send(verb: str, status: int, session: str = "", **body: object) -> dict:
        headers = {
            "Authorization": f"Bearer {key}",
            **({"X-Rftweb-Episode": session} if session else {}),
        }
        answer = httpx.post(f"{address}/v1/{verb}", json=body, headers=headers, timeout=20)
        assert answer.status_code == status, answer.text
        return answer.json()

    return send


def test_call_is_answered_and_its_messages_become_the_task(run, client, actor):
    assert ask(client).choices[0].message.content == "one"
    group = Group.objects.get()
    assert (group.task.prompt, group.task.taskset.slug, group.answer_only) == (
        ASKED,
        "asked",
        False,
    )


def test_next_turn_in_a_named_session_belongs_to_the_same_task(run, client, actor):
    ask(client, **IN_A)
    ask(
        client,
        [*ASKED, {"role": "assistant", "content": "one"}, {"role": "user", "content": "higher"}],
        **IN_A,
    )
    assert (Group.objects.count(), Episode.objects.get().turns) == (1, 2)


def test_rejected_call_leaves_nothing_behind(run, client, actor):
    wrong = [*ASKED, {"role": "assistant", "content": "one"}]
    refusal(openai.UnprocessableEntityError, ask, client, wrong)
    run.refresh_from_db()
    assert (
        Group.objects.count(),
        Episode.objects.count(),
        run.groups_opened,
        run.taskset.tasks.count(),
    ) == (0, 0, 0, 0)


def test_call_over_the_limit_is_rejected_and_counted(run, client, actor):
    ask(client), ask(client)
    for count in (1, 2):
        refused = refusal(openai.RateLimitError, ask, client)
        assert (refused.code, refused.response.headers["Retry-After"]) == ("no_room", "1")
        assert TurnedAway.objects.get(run=run).count == count


def test_several_choices_that_do_not_all_fit_are_rejected_together(run, client, actor):
    refusal(openai.RateLimitError, ask, client, n=3)
    assert Group.objects.count() == 0


def test_call_over_the_limit_is_answered_without_training_when_configured(
    run, alice, client, actor
):
    run.change_config(alice, serve={"over_bound": "answer_only"})
    for _ in range(3):
        assert ask(client).choices[0].message.content == "one"
    assert list(Group.objects.order_by("pk").values_list("answer_only", flat=True)) == [
        False,
        False,
        True,
    ]


def test_open_sessions_do_not_exceed_the_environments_parallel_limit(run, agent, client, actor):
    Environment.objects.filter(pk=agent.pk).update(parallel=1)
    ask(client)
    assert "parallel: 1" in refusal(openai.RateLimitError, ask, client).message


def test_session_opens_its_group_with_the_first_call(run, post, client, actor):
    begun = post("rl/start_session", 201, task_id="a")
    assert (begun["session_id"], begun["episode"], begun["task"]) == ("a", None, None)
    assert Group.objects.count() == 0
    ask(client, **IN_A)
    assert Episode.objects.get().key == "a"


def test_episode_names_are_separate_in_each_run(run, client, client_of, alice, actor, new_run):
    """Check that a program with a fixed episode name also works in the next run."""
    ask(client, **IN_A)
    run.stop()
    later = new_run(**SERVED, serve={})
    other = client_of(Token.issue(alice, "later", [f"agent:{later.pk}"])[1])
    assert ask(other, **IN_A).choices[0].message.content == "one"
    assert ask(other, **IN_A).id == ask(other, **IN_A).id
    assert list(Episode.objects.order_by("pk").values_list("run", "key")) == [
        (run.pk, "a"),
        (later.pk, "a"),
    ]


def test_ended_run_answers_no_calls(run, client, post):
    run.stop()
    refused = refusal(openai.APIStatusError, ask, client)
    assert (refused.status_code, refused.code) == (410, "run_ended")
    assert post("rl/start_session", 410)["error"]["code"] == "run_ended"


def test_plain_text_completion_becomes_a_task_marked_raw(run, client, actor):
    client.completions.create(model="tiny", prompt="Once upon")
    task = Group.objects.get().task
    assert (task.prompt, task.meta) == ([{"role": "user", "content": "Once upon"}], {"raw": True})


def test_correction_becomes_a_demonstration_for_the_callers_task(run, client, post, actor):
    post("feedback", 201, completion_id=ask(client).id, correction="two")
    assert Demonstration.objects.get().task == Group.objects.get().task


def test_prompt_too_long_for_the_policy_is_rejected_as_context_length_exceeded(run, client, failer):
    refused = refusal(openai.BadRequestError, ask, client)
    assert (refused.code, refused.param) == ("context_length_exceeded", "messages")
    assert (
        "maximum context length is 64 tokens" in refused.message and "900 tokens" in refused.message
    )


# -- feedback and its deadline


def seconds_left(episode: Episode) -> float:
    episode.refresh_from_db()
    return (episode.reward_until - timezone.now()).total_seconds()


def test_feedback_is_awaited_and_can_be_changed_for_a_while(run, client, post, actor):
    said = ask(client)
    episode = written(Episode.objects.get())
    assert 30 < seconds_left(episode) <= 600 and Group.objects.get().awaits_rewards
    assert post("feedback", 201, completion_id=said.id, thumb="down")["version"] == 1
    assert seconds_left(episode) <= 30
    until = timezone.now() + timedelta(seconds=25)
    Episode.objects.update(reward_until=until)
    changed = post("feedback", 201, completion_id=said.id, thumb="up")
    assert (changed["version"], changed["is_late"]) == (2, False)
    episode.refresh_from_db()
    assert episode.reward_until > until


def test_session_rated_before_its_end_waits_at_most_30_seconds(run, client, post, actor):
    post("feedback", 201, completion_id=ask(client, **IN_A).id, thumb="up")
    assert seconds_left(written(Episode.objects.get())) <= 30


def test_feedback_after_the_deadline_is_late_and_does_not_change_the_reward(
    run, client, post, actor
):
    said = ask(client)
    episode = written(Episode.objects.get())
    post("feedback", 201, completion_id=said.id, thumb="up")
    Episode.objects.filter(pk=episode.pk).update(reward_until=timezone.now())
    late = post("feedback", 201, completion_id=said.id, thumb="down")
    assert (late["is_late"], late["reward"], late["late_reward"]) == (True, 1.0, 0.0)
    assert send_on() == 1
    assert Rollout.objects.get().rewards.get().value == 1.0


def test_final_feedback_ends_the_waiting(run, client, post, actor):
    said = ask(client)
    written(Episode.objects.get())
    post("feedback", 201, completion_id=said.id, thumb="up", final=True)
    assert send_on() == 1 and Rollout.objects.get().rewards.get().value == 1.0


def test_picture_of_a_caller_is_part_of_the_task(run, client, actor):
    Policy.objects.update(sees_pictures=True)
    ask(client, [{"role": "user", "content": [shown(data_url(png())), HOW_MANY]}])
    kept = Picture.objects.get(project=run.project)
    assert list_pictures(Group.objects.get().task.prompt) == [kept.sha256]
