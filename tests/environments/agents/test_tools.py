"""Tools are rendered by the policy's chat template if it supports them, and its calls are returned
in OpenAI's format.
"""

import json

import openai
import pytest

from apps.environments.agents import tools
from apps.environments.models import EpisodeTurn
from apps.policies.models import Policy
from tests.environments.agents.test_chat import ASKED, IN_A, ask, refusal

ADD = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</tool_call>'
TEMPLATE = (
    "{% if tools %}{{ tools | tojson }} <tool_call>{% endif %}{% for message in messages %}{{"
    " message['content'] }}{% endfor %}"
)


@pytest.fixture
def showing(policy, tmp_path) -> None:
    """Give the policy a chat template that shows tools."""
    (tmp_path / "chat_template.jinja").write_text(TEMPLATE)
    Policy.objects.filter(pk=policy.pk).update(folder=str(tmp_path))


@pytest.mark.django_db(transaction=True)
def test_tool_call_and_its_result_are_two_turns(showing, client, episodes, actor):
    actor.says = [f"Let me see. {CALL}", "3"]
    [choice] = ask(client, tools=[ADD], **IN_A).choices
    [call] = choice.message.tool_calls
    assert (choice.finish_reason, choice.message.content, call.function.name) == (
        "tool_calls",
        "Let me see.",
        "add",
    )
    assert json.loads(call.function.arguments) == {"a": 1, "b": 2}
    result = {"role": "tool", "tool_call_id": call.id, "content": "3"}
    said = [*ASKED, choice.message, result]
    assert ask(client, said, tools=[ADD], **IN_A).choices[0].message.content == "3"
    assert list(EpisodeTurn.objects.values_list("tools", "observation")) == [
        ([ADD], ASKED),
        ([], [{"role": "tool", "content": "3"}]),
    ]
    wrong = [*said[:-1], {**result, "tool_call_id": "call_0_0_0", "content": "4"}]
    assert (
        refusal(openai.UnprocessableEntityError, ask, client, wrong, tools=[ADD], **IN_A).param
        == "messages[3]"
    )
    others = [{**ADD, "function": {**ADD["function"], "name": "other"}}]
    assert (
        refusal(openai.UnprocessableEntityError, ask, client, said, tools=others, **IN_A).param
        == "tools"
    )
    chunks = list(
        client.chat.completions.create(model="tiny", messages=ASKED, tools=[ADD], stream=True)
    )
    assert [
        one.function.name for chunk in chunks for one in chunk.choices[0].delta.tool_calls or ()
    ] == ["add"]


@pytest.mark.parametrize(
    "text",
    [
        "no call",
        "<tool_call>not json</tool_call>",
        '<tool_call>{"name": 3}</tool_call>',
        f"{CALL}<tool_call>[]</tool_call>",
    ],
)
def test_text_that_is_not_a_tool_call_stays_text(text):
    assert tools.split_tool_calls(text) == (text, [])


def test_template_without_tools_is_recognized(tmp_path):
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ messages }}"}))
    assert not tools.shows_tools(str(tmp_path))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": TEMPLATE + " "}))
    assert tools.shows_tools(str(tmp_path))
