"""OpenAI's own client uses the policy as a model: each call is one turn of an episode, and recorded
turns cannot change.
"""

import openai
import pytest

from apps.accounts.models import Token
from apps.environments.models import Episode, EpisodeTurn

pytestmark = pytest.mark.django_db(transaction=True)
ASKED = [{"role": "system", "content": "You guess."}, {"role": "user", "content": "Guess!"}]
IN_A = {"extra_headers": {"X-Rftweb-Episode": "a"}}


def ask(client, messages=ASKED, **more):
    return client.chat.completions.create(model="tiny", messages=messages, **more)


def refusal(kind: type[openai.APIStatusError], do, *words, **named) -> openai.APIStatusError:
    with pytest.raises(kind) as refused:
        do(*words, **named)
    return refused.value


def test_a_call_is_answered_by_the_policy(client, episodes, actor):
    said = ask(client)
    [choice] = said.choices
    assert (choice.message.role, choice.message.content, choice.finish_reason) == (
        "assistant",
        "one",
        "stop",
    )
    assert (said.usage.prompt_tokens, said.usage.completion_tokens, said.usage.total_tokens) == (
        5,
        3,
        8,
    )
    turn = EpisodeTurn.objects.get()
    assert (said.id, said.model, turn.observation) == (
        f"chatcmpl-{turn.episode_id}-0",
        "tiny",
        ASKED,
    )


def test_truncated_reply_has_finish_reason_length(client, episodes, actor):
    actor.is_cut = True
    assert ask(client).choices[0].finish_reason == "length"


def test_each_call_without_an_episode_name_takes_its_own_episode(client, episodes, actor):
    assert {ask(client).id for _ in episodes} == {
        f"chatcmpl-{episode.pk}-0" for episode in episodes
    }


def test_continued_conversation_is_the_next_turn(client, episodes, actor):
    ask(client, **IN_A)
    said = [*ASKED, {"role": "assistant", "content": "one"}, {"role": "user", "content": "higher"}]
    assert ask(client, said, **IN_A).choices[0].message.content == "two"
    assert list(EpisodeTurn.objects.values_list("observation", "action")) == [
        (ASKED, "one"),
        ([{"role": "user", "content": "higher"}], "two"),
    ]
    assert Episode.objects.get(key="a").turns == 2


def test_message_object_of_the_client_is_accepted_in_the_next_turn(client, episodes, actor):
    first = ask(client, **IN_A)
    said = [
        *ASKED,
        first.choices[0].message,
        {"role": "user", "content": [{"type": "text", "text": "higher"}]},
    ]
    assert ask(client, said, **IN_A).choices[0].message.content == "two"


def test_episode_can_be_named_in_the_key(client_of, key, episodes, actor):
    client = client_of(f"{key}.mine")
    ask(client)
    assert Episode.objects.get(key="mine").turns == 1


def test_repeated_call_gets_the_same_reply(client, episodes, actor):
    assert ask(client, **IN_A) == ask(client, **IN_A)
    assert EpisodeTurn.objects.count() == 1


ONE = {"role": "assistant", "content": "one"}
OTHERS = [
    ([{"role": "user", "content": "Guess!"}], 0),
    (
        [
            *ASKED,
            {"role": "assistant", "content": "never said"},
            {"role": "user", "content": "higher"},
        ],
        2,
    ),
    (ASKED[:1], 1),
    ([*ASKED, ONE], 3),
    ([*ASKED, ONE, ONE], 3),
]


def test_conversation_that_differs_from_the_recorded_one_is_rejected_with_its_position(
    client, episodes, actor
):
    ask(client, **IN_A)
    for said, place in OTHERS:
        refused = refusal(openai.UnprocessableEntityError, ask, client, said, **IN_A)
        assert (refused.code, refused.param) == ("conversation_differs", f"messages[{place}]")
    assert EpisodeTurn.objects.count() == 1


REFUSED = [
    ({"n": 0}, "n"),
    ({"n": 2, **IN_A}, "n"),
    ({"seed": -1}, "seed"),
    ({"temperature": 2.1}, "temperature"),
    ({"temperature": True}, "temperature"),
    ({"stop": [""]}, "stop"),
    ({"stop": ["a"] * 5}, "stop"),
    ({"logprobs": True, "top_logprobs": 1}, "top_logprobs"),
    ({"max_tokens": 0}, "max_tokens"),
    ({"top_p": 1.5}, "top_p"),
    ({"messages": [{"role": "user"}]}, "messages[0].content"),
    ({"response_format": {"type": "json_object"}}, "response_format"),
    ({"tool_choice": "required"}, "tool_choice"),
    ({"extra_body": {"reasoning_effort": "low"}}, "reasoning_effort"),
    ({"presence_penalty": 0.5}, "presence_penalty"),
    ({"tools": [{"type": "function", "function": {"name": "add"}}]}, "tools"),
    ({"extra_body": {"top_k": 3}}, "top_k"),
    (
        {
            "messages": [
                {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}
            ]
        },
        "messages[0].content[0]",
    ),
    ({"messages": []}, "messages"),
    ({"messages": [{"role": "tool", "content": "3"}]}, "messages[0].tool_call_id"),
]


def test_unsupported_parameter_is_rejected_by_name_and_takes_no_episode(client, episodes):
    for more, param in REFUSED:
        refused = refusal(openai.BadRequestError, ask, client, **{"messages": ASKED, **more})
        assert (refused.param, refused.type) == (
            param,
            "invalid_request_error",
        ) and param in refused.message
    assert not Episode.objects.exclude(state="waiting").exists()


def test_parameters_without_effect_are_accepted(client, episodes, actor):
    said = ask(
        client,
        temperature=1,
        n=1,
        top_p=1,
        max_tokens=4096,
        user="me",
        stop=[],
        presence_penalty=0,
        logprobs=False,
    )
    assert said.choices[0].message.content == "one"


def test_temperature_and_top_p_that_differ_from_the_runs_are_reported_as_not_applied(
    client, episodes, actor
):
    """Check that a header lists the parameters that the answer does not follow."""
    raw = client.chat.completions.with_raw_response
    cold = ({"temperature": 0, "top_p": 0.9}, "temperature, top_p")
    for more, header in (cold, ({"temperature": 1.0}, None)):
        answer = raw.create(model="tiny", messages=ASKED, **more)
        assert answer.parse().choices[0].message.content == "one"
        assert answer.headers.get("X-Rftweb-Not-Applied") == header
    assert {str(turn.wishes) for turn in EpisodeTurn.objects.all()} == {"{}"}


def test_unknown_model_returns_not_found(client, episodes):
    refused = refusal(
        openai.NotFoundError, client.chat.completions.create, model="gpt-9", messages=ASKED
    )
    assert (refused.code, refused.param) == ("model_not_found", "model")


def test_models_are_listed(client):
    assert [model.id for model in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").owned_by == "lab"


def test_call_without_a_free_episode_gets_retry_after(client, run):
    refused = refusal(openai.RateLimitError, ask, client)
    assert refused.code == "no_episode_free" and int(refused.response.headers["Retry-After"]) >= 1


def test_ended_episode_rejects_further_calls(client, episodes, actor):
    ask(client, **IN_A)
    client.post(
        "/rl/end_session", body={}, cast_to=object, options={"headers": IN_A["extra_headers"]}
    )
    said = [*ASKED, {"role": "assistant", "content": "one"}, {"role": "user", "content": "higher"}]
    refused = refusal(openai.APIStatusError, ask, client, said, **IN_A)
    assert (refused.status_code, refused.code) == (410, "episode_ended")


def test_unknown_key_is_rejected(client_of, episodes):
    for secret in ("nothing", "rft_usr_unknown", "rft_usr_unknown.a"):
        assert refusal(openai.AuthenticationError, ask, client_of(secret)).code == "invalid_api_key"


def test_key_without_the_scope_or_of_a_stranger_is_forbidden(
    client_of, run, alice, carol, episodes
):
    for secret in (
        Token.issue(alice, "x", ["read"])[1],
        Token.issue(carol, "x", [f"agent:{run.pk}"])[1],
    ):
        assert (
            refusal(openai.PermissionDeniedError, ask, client_of(secret)).code
            == "insufficient_permissions"
        )


# -- how it is to answer


def test_stop_seed_and_shortest_length_are_passed_to_the_explorer(client, episodes, actor):
    ask(client, stop="\n", seed=7, max_tokens=5, max_completion_tokens=4096)
    assert EpisodeTurn.objects.get().wishes == {"stop": ["\n"], "seed": 7, "max_tokens": 5}


def test_logprobs_of_the_chosen_tokens_are_returned(client, episodes, actor):
    actor.tells = True
    told = ask(client, logprobs=True, **IN_A).choices[0].logprobs.content
    assert [(one.token, one.bytes, one.logprob, one.top_logprobs) for one in told] == [
        (letter, [ord(letter)], -0.5, []) for letter in "one"
    ]


def test_several_choices_are_separate_episodes_with_their_own_ids_and_seeds(
    client, episodes, actor
):
    said = ask(client, n=2, seed=7)
    assert [(choice.index, choice.message.content) for choice in said.choices] == [
        (0, "one"),
        (1, "one"),
    ]
    assert [choice.completion_id for choice in said.choices] == [
        f"chatcmpl-{episode.pk}-0" for episode in episodes
    ]
    assert (said.usage.prompt_tokens, said.usage.completion_tokens) == (5, 6)
    first, second = (turn.wishes["seed"] for turn in EpisodeTurn.objects.order_by("pk"))
    assert first == 7  # as in a call for one answer
    assert second not in range(7 + 128)  # nor that of a call with a neighbouring seed


def test_call_for_more_choices_than_free_episodes_takes_none(client, episodes):
    refusal(openai.RateLimitError, ask, client, n=3)
    assert not Episode.objects.exclude(state="waiting").exists()


def test_first_call_may_contain_assistant_messages(client, episodes, actor):
    shown = [
        {"role": "user", "content": "1"},
        {"role": "assistant", "content": "2"},
        {"role": "user", "content": "3"},
    ]
    ask(client, shown, **IN_A)
    assert EpisodeTurn.objects.get().observation == shown
    assert (
        ask(client, [*shown, ONE, {"role": "user", "content": "4"}], **IN_A)
        .choices[0]
        .message.content
        == "two"
    )


# -- bare texts


def test_completion_endpoint_continues_a_plain_text(client, episodes, actor):
    said = client.completions.create(model="tiny", prompt="once", max_tokens=5, stop="\n")
    [choice] = said.choices
    assert (said.object, choice.text, choice.finish_reason, said.usage.total_tokens) == (
        "text_completion",
        "one",
        "stop",
        8,
    )
    turn = EpisodeTurn.objects.get()
    assert (
        turn.wishes == {"raw": True, "max_tokens": 5, "stop": ["\n"]}
        and turn.observation[0]["content"] == "once"
    )


def test_invalid_completion_request_is_rejected_by_parameter_name(client, episodes):
    for more in (
        {"prompt": ["a", "b"]},
        {"prompt": ""},
        {"echo": True},
        {"logprobs": 1},
        {"suffix": "x"},
        {"best_of": 2},
    ):
        body = {"model": "tiny", "prompt": "x", **more}
        refused = refusal(openai.BadRequestError, client.completions.create, **body)
        assert refused.param == next(iter(more))
    body = {"model": "tiny", "prompt": "x", **IN_A}
    refused = refusal(openai.BadRequestError, client.completions.create, **body)
    assert (
        refused.param == "X-Rftweb-Episode"
        and not Episode.objects.exclude(state="waiting").exists()
    )
