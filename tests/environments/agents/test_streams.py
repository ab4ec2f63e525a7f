"""A streamed reply arrives as it is generated, and is complete with or without the live view."""

import threading

import openai
import pytest
from django.db import OperationalError, connection

from apps.environments.action_sampling import ActionSampling
from apps.environments.models import Episode
from apps.environments.playing import Action, record_actions
from apps.streaming.chunks import ChunkWriter, rollout_key
from tests.environments.agents.test_chat import ASKED, IN_A, ask

pytestmark = pytest.mark.django_db(transaction=True)


def stream(client, messages=ASKED, **more):
    return client.chat.completions.create(model="tiny", messages=messages, stream=True, **more)


def text_of(chunks) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def test_stream_contains_reply_finish_reason_and_usage(client, episodes, actor):
    chunks = list(stream(client, stream_options={"include_usage": True}, **IN_A))
    assert text_of(chunks) == "one"
    assert (chunks[0].choices[0].delta.role, chunks[-2].choices[0].finish_reason) == (
        "assistant",
        "stop",
    )
    assert chunks[-1].choices == [] and chunks[-1].usage.total_tokens == 8
    assert len({chunk.id for chunk in chunks}) == 1
    assert text_of(stream(client, **IN_A)) == "one"


def test_tokens_of_this_turn_arrive_while_the_policy_writes(client, run, episodes, redis_of):
    """Play the explorer: write half of the reply, and the rest only after that half has arrived."""
    episode = episodes[0]
    writer = ChunkWriter(run.topic_id)
    redis_of.delete(rollout_key(episode.rollout_id))
    chunks = iter(stream_later(client, episode, writer))
    assert text_of([next(chunks), next(chunks)]) == "on"
    writer.add(episode.rollout_id, 2, "e", (-0.5,), 0)
    writer.flush(at_once=True)
    record_actions([Action(episode.pk, 0, "one", 0, 3, 5)])
    assert text_of(chunks) == "e"


def stream_later(client, episode, writer):
    """Return the stream, requested while the first tokens are written."""

    def write() -> None:
        try:
            while Episode.objects.get(pk=episode.pk).state != "policy":
                pass
            writer.started(episode.rollout_id, 1, "Guess!", 0)
            writer.add(episode.rollout_id, 0, "on", (-0.5, -0.5), 0)
            writer.flush(at_once=True)
        finally:
            connection.close()

    threading.Thread(target=write).start()
    return stream(client)


def test_several_choices_are_streamed_completely(client, episodes, actor):
    actor.tells = True
    chunks = list(stream(client, n=2, logprobs=True))
    assert len({chunk.id for chunk in chunks}) == 1
    for place in (0, 1):
        own = [chunk.choices[0] for chunk in chunks if chunk.choices[0].index == place]
        assert (
            "".join(choice.delta.content or "" for choice in own) == "one"
            and own[-1].finish_reason == "stop"
        )
        assert [
            one.token for choice in own if choice.logprobs for one in choice.logprobs.content
        ] == list("one")


def test_plain_text_completion_is_streamed(client, episodes, actor):
    chunks = list(client.completions.create(model="tiny", prompt="once", stream=True))
    assert (
        "".join(chunk.choices[0].text for chunk in chunks) == "one"
        and chunks[-1].choices[0].finish_reason == "stop"
    )


def test_text_that_may_start_a_stop_sequence_is_held_back():
    wishes = ActionSampling(stop=("END", "\n\n"))
    assert [wishes.safe(text) for text in ("a E", "a EN", "a ENx", "a\n", "a\n\nb", "a END")] == [
        "a ",
        "a ",
        "a ENx",
        "a",
        "a",
        "a ",
    ]


@pytest.mark.parametrize("is_streamed", [False, True])
def test_database_that_is_away_gives_503_in_openais_shape(
    client, episodes, actor, monkeypatch, is_streamed
):
    def refuse(*_: object) -> None:
        raise OperationalError("the connection is lost")

    monkeypatch.setattr("apps.environments.agents.waiting.load_acted_turn", refuse)
    with pytest.raises(openai.InternalServerError) as caught:
        list(stream(client) if is_streamed else ask(client))
    assert (caught.value.status_code, caught.value.code) == (503, "database_unavailable")
    assert caught.value.response.headers["Retry-After"] == "5"


def test_episode_that_ends_before_its_reply_raises_an_error_and_no_stream(client, episodes, ender):
    for more, status in (
        (IN_A, 410),
        ({}, 503),
    ):  # a call that is all of its episode may just be sent again
        with pytest.raises(openai.APIStatusError) as refused:
            list(stream(client, **more))
        assert (refused.value.status_code, refused.value.code) == (status, "episode_ended")
