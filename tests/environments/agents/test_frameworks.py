"""Requests exactly as common frameworks send them: accepted, or rejected with the field's name.

The bodies follow what LangChain, LlamaIndex, the OpenAI Agents SDK, LiteLLM and the Vercel AI SDK
put on the wire. test_framework_programs.py runs the packages themselves.
"""

import json

import httpx
import openai
import pytest

from apps.environments.action_sampling import ActionSampling
from apps.environments.agents import tools
from apps.environments.agents.conversation import ASSISTANT, parse_messages
from apps.environments.agents.refusals import Refused
from apps.environments.models import EpisodeTurn
from apps.policies.models import Policy
from tests.environments.agents.test_chat import ASKED, IN_A, ask, refusal
from tests.environments.agents.test_tools import ADD, CALL, TEMPLATE

BEGUN = '<tool_call>\n{"name": "add", "arguments":'
SYSTEM = {"role": "system", "content": "You add."}
USER = {"role": "user", "content": "1+2?"}
PARTS = {"role": "user", "content": [{"type": "text", "text": "1+2?"}]}
STREAMED = {"stream": True, "stream_options": {"include_usage": True}}
TAKEN = {
    "langchain": {"messages": [SYSTEM, USER], "n": 1, "stream": False, "temperature": None},
    "langchain-tools": {"messages": [USER], "tools": [ADD], "parallel_tool_calls": False},
    "langchain-names": {
        "messages": [SYSTEM, {**USER, "name": "ann"}],
        "temperature": 0,
        "top_p": 0.9,
        "store": True,
        "service_tier": "priority",
    },
    "llama-index": {"messages": [SYSTEM, USER], "temperature": 0.1, "max_tokens": 50},
    "agents-sdk": {
        "messages": [SYSTEM, USER],
        "tools": [{**ADD, "function": {**ADD["function"], "strict": True}}],
        "tool_choice": "auto",
        "store": False,
        "metadata": {},
        "reasoning_effort": None,
    },
    "litellm": {"messages": [SYSTEM, USER], "user": "me", "logit_bias": {}},
    "vercel": {
        "messages": [SYSTEM, PARTS],
        "max_tokens": 50,
        "tool_choice": "auto",
        "tools": [ADD],
        **STREAMED,
    },
}
REFUSED = {
    "langchain-structured": (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}},
        "response_format",
    ),
    "litellm-json": ({"response_format": {"type": "json_object"}}, "response_format"),
    "langchain-logprobs": ({"logprobs": True, "top_logprobs": 5}, "top_logprobs"),
    "forced-without-tools": ({"tool_choice": "required"}, "tool_choice"),
    "allowed-tools": ({"tools": [ADD], "tool_choice": {"type": "allowed_tools"}}, "tool_choice"),
    "another-tool": (
        {"tools": [ADD], "tool_choice": {"type": "function", "function": {"name": "x"}}},
        "tool_choice",
    ),
    "functions": ({"functions": [{"name": "add"}]}, "functions"),
    "vercel-reasoning": ({"reasoning_effort": "low"}, "reasoning_effort"),
    "pattern": (
        {
            "tools": [
                {
                    "type": "function",
                    "function": {
                        "name": "add",
                        "strict": True,
                        "parameters": {"properties": {"a": {"pattern": "(?=a)b"}}},
                    },
                }
            ]
        },
        "tools[0].function.parameters",
    ),
}


@pytest.fixture
def showing(policy, tmp_path) -> None:
    (tmp_path / "chat_template.jinja").write_text(TEMPLATE)
    Policy.objects.filter(pk=policy.pk).update(folder=str(tmp_path))


@pytest.fixture
def send(address, key):
    def post(
        verb: str, content: bytes, content_type: str | None = "application/json", session: str = ""
    ):
        headers = {"Authorization": f"Bearer {key}"}
        headers |= {"Content-Type": content_type} if content_type else {}
        headers |= {"X-Rftweb-Episode": session} if session else {}
        return httpx.post(f"{address}/v1/{verb}", content=content, headers=headers, timeout=20)

    return post


@pytest.mark.django_db(transaction=True)
def test_requests_of_frameworks_are_accepted(showing, agent, run, opened, send, actor):
    for name, body in TAKEN.items():
        opened(agent, run)
        answer = send("chat/completions", json.dumps({"model": "tiny", **body}).encode())
        assert answer.status_code == 200, (name, answer.text)
        assert "one" in answer.text, name


@pytest.mark.django_db(transaction=True)
def test_unsupported_request_is_rejected_with_its_field(showing, client, episodes):
    for name, (more, param) in REFUSED.items():
        extra = {"extra_body": more}
        refused = refusal(openai.BadRequestError, ask, client, **extra)
        assert refused.param == param and param in refused.message, name


# -- tools over two turns ------------------------------------------------------------------------


@pytest.fixture
def called(showing, client, episodes, actor):
    """Return the messages after the policy called the tool, and the id of the call."""
    actor.says = [CALL, "3", f"{CALL}{CALL}", "done"]
    choice = ask(client, tools=[ADD], **IN_A).choices[0]
    message = choice.message.model_dump(exclude_none=True)
    return [*ASKED, message], message["tool_calls"][0]["id"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "respelt",
    [
        lambda message: message,
        lambda message: {**message, "reasoning_content": "I think", "refusal": None, "audio": None},
        lambda message: {**message, "provider_specific_fields": {"refusal": None}, "name": "adder"},
        lambda message: {**message, "content": None, "annotations": []},
    ],
)
def test_assistant_message_respelt_by_a_client_is_accepted(client, called, respelt):
    said, call = called
    said[-1] = respelt(said[-1])
    said[-1]["tool_calls"][0]["function"]["arguments"] = '{"b":2.0,"a":1.0}'
    result = {"role": "tool", "tool_call_id": call, "name": "add", "content": "3"}
    assert ask(client, [*said, result], tools=[ADD], **IN_A).choices[0].message.content == "3"


@pytest.mark.django_db(transaction=True)
def test_changed_tool_arguments_count_as_another_conversation(client, called):
    said, call = called
    said[-1]["tool_calls"][0]["function"]["arguments"] = '{"b": 2, "a": true}'
    result = {"role": "tool", "tool_call_id": call, "content": "3"}
    refused = refusal(openai.UnprocessableEntityError, ask, client, [*said, result], **IN_A)
    assert (refused.code, refused.param) == ("conversation_differs", "messages[2]")


@pytest.mark.django_db(transaction=True)
def test_second_result_of_a_tool_call_is_rejected(client, called):
    said, call = called
    result = {"role": "tool", "tool_call_id": call, "content": "3"}
    refused = refusal(openai.BadRequestError, ask, client, [*said, result, result], **IN_A)
    assert refused.param == "messages[4].tool_call_id" and "messages[3]" in refused.message


@pytest.mark.django_db(transaction=True)
def test_tool_calls_are_not_parsed_when_no_tools_are_offered(client, called):
    """Check that a reply without tools, or with tool_choice none, is read as text."""
    said, call = called
    said += [{"role": "tool", "tool_call_id": call, "content": "3"}]
    second = ask(client, said, **IN_A).choices[0].message
    said += [
        {"role": "assistant", "content": second.content},
        {"role": "user", "content": "Again."},
    ]
    third = ask(client, said, tools=[ADD], tool_choice="none", **IN_A).choices[0]
    assert (third.finish_reason, third.message.tool_calls) == ("stop", None)
    assert third.message.content == f"{CALL}{CALL}"
    said += [
        {"role": "assistant", "content": third.message.content},
        {"role": "user", "content": "Now."},
    ]
    assert ask(client, said, tools=[ADD], **IN_A).choices[0].message.content == "done"


@pytest.mark.django_db(transaction=True)
def test_parallel_tool_calls_false_returns_one_call(showing, client, episodes, actor):
    actor.says = [f"{CALL}{CALL}"]
    message = ask(client, tools=[ADD], parallel_tool_calls=False, **IN_A).choices[0].message
    assert len(message.tool_calls) == 1
    assert EpisodeTurn.objects.get().wishes == {"one_call": True}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "add"}}])
def test_required_tool_call_is_started_for_the_policy(showing, client, episodes, actor, choice):
    actor.says = [' {"a": 1, "b": 2}}\n</tool_call>', "done"]
    said = ask(client, tools=[ADD], tool_choice=choice, **IN_A).choices[0].message
    [call] = said.tool_calls
    assert json.loads(call.function.arguments) == {"a": 1, "b": 2}
    assert EpisodeTurn.objects.get().wishes == {"prefix": BEGUN}
    result = {"role": "tool", "tool_call_id": call.id, "content": "3"}
    second = ask(client, [*ASKED, said, result], tools=[ADD], **IN_A).choices[0].message
    assert second.content == "done"


@pytest.mark.django_db(transaction=True)
def test_policy_can_choose_among_several_required_tools(showing, client, episodes, actor):
    actor.says = [CALL.removeprefix('<tool_call>\n{"name": "')]
    other = {"type": "function", "function": {"name": "other"}}
    message = ask(client, tools=[other, ADD], tool_choice="required").choices[0].message
    assert message.tool_calls[0].function.name == "add"


@pytest.mark.django_db(transaction=True)
def test_required_call_that_is_invalid_is_returned_as_text(showing, client, episodes, actor):
    actor.says = [" [1, 2"]
    choice = ask(client, tools=[ADD], tool_choice="required").choices[0]
    assert (choice.message.tool_calls, choice.message.content) == (None, f"{BEGUN} [1, 2")


def test_single_tool_call_ends_the_action_at_its_closing_tag():
    wishes = ActionSampling(one_call=True)
    assert wishes.has_stops and not wishes.is_met_by(CALL[:-1])
    assert wishes.is_met_by(f"{CALL} more") and wishes.visible_text(f"{CALL} more") == CALL
    assert ActionSampling.of(wishes.changed_options) == wishes


def test_strict_tool_accepts_only_arguments_that_match_its_schema():
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    strict = [
        {"type": "function", "function": {"name": "add", "strict": True, "parameters": schema}}
    ]
    assert (
        tools.split_tool_calls(CALL, strict) == (CALL, [])
        and len(tools.split_tool_calls(CALL, [ADD])[1]) == 1
    )


# -- words ---------------------------------------------------------------------------------------


def test_name_is_prefixed_only_to_a_user_message():
    said = parse_messages(
        [{**USER, "name": "ann"}, {"role": ASSISTANT, "content": "3", "name": "adder"}, USER]
    )
    assert [message.content for message in said] == ["ann: 1+2?", "3", "1+2?"]


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({**USER, "name": "a b"}, "messages[0].name"),
        ({**USER, "name": "<|im_end|>"}, "messages[0].name"),
        ({**USER, "reasoning_content": "x"}, "messages[0].reasoning_content"),
        ({**USER, "audio": {"id": "x"}}, "messages[0].audio"),
    ],
)
def test_message_field_that_the_policy_would_not_see_is_rejected(message, param):
    with pytest.raises(Refused) as refused:
        parse_messages([message])
    assert refused.value.param == param


@pytest.mark.django_db(transaction=True)
def test_example_with_reasoning_content_is_rejected(client, episodes):
    example = {"role": "assistant", "content": "3", "reasoning_content": "hm"}
    refused = refusal(openai.BadRequestError, ask, client, [USER, example, USER])
    assert refused.param == "messages[1].reasoning_content"


@pytest.mark.django_db(transaction=True)
def test_completion_id_has_openais_prefix_and_works_in_feedback(client, episodes, actor, send):
    said = client.completions.create(model="tiny", prompt="Once upon")
    assert said.id == f"cmpl-{EpisodeTurn.objects.get().episode_id}-0"
    word = json.dumps({"completion_id": said.id, "thumb": "up"}).encode()
    assert send("feedback", word).json()["interaction_id"] == said.id


@pytest.mark.django_db(transaction=True)
def test_byte_order_mark_is_accepted(episodes, actor, send):
    body = json.dumps({"model": "tiny", "messages": [USER]}).encode()
    assert send("chat/completions", b"\xef\xbb\xbf" + body).status_code == 200


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("given", "words"), [("text/plain", "'text/plain'"), (None, "no Content-Type")]
)
def test_unsupported_content_type_is_rejected_by_name(episodes, send, given, words):
    answer = send("chat/completions", b"{}", given)
    said = answer.json()["error"]["message"]
    assert answer.status_code == 415 and words in said and "application/json" in said


@pytest.mark.parametrize(
    ("schema", "fits"),
    [
        ({"properties": {"a": {"type": "integer"}}}, True),
        (
            {
                "properties": {
                    "a": {"$schema": "http://json-schema.org/draft-07/schema#", "minimum": 9}
                }
            },
            False,
        ),
        ({"$ref": "#/$defs/none"}, False),
        ({"$ref": "#"}, False),
    ],
)
def test_schema_of_a_strict_tool_is_applied(schema, fits):
    strict = [
        {"type": "function", "function": {"name": "add", "strict": True, "parameters": schema}}
    ]
    assert bool(tools.split_tool_calls(CALL, strict)[1]) == fits
