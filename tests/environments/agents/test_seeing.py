"""Agents that send pictures to the policy through OpenAI's own client."""

import openai
import pytest

from apps.environments.models import EpisodeTurn
from apps.policies.models import Policy
from apps.tasksets.models import Picture
from tests.environments.agents.test_chat import IN_A, ask, refusal
from tests.tasksets.test_messages import HOW_MANY, data_url, png, shown

pytestmark = pytest.mark.django_db(transaction=True)
ASKED = [
    {"role": "system", "content": "You count."},
    {"role": "user", "content": [shown(data_url(png()), detail="auto"), HOW_MANY]},
]
ONE = {"role": "assistant", "content": "one"}


@pytest.fixture
def sees(run) -> None:
    Policy.objects.update(sees_pictures=True)


def test_pictures_in_turns_are_stored_once_when_they_are_sent_again(client, episodes, sees, actor):
    assert ask(client, ASKED, **IN_A).choices[0].message.content == "one"
    another = {"role": "user", "content": [shown(data_url(png(9, "blue")))]}
    assert ask(client, [*ASKED, ONE, another], **IN_A).choices[0].message.content == "two"
    first, second = EpisodeTurn.objects.order_by("number").values_list("observation", flat=True)
    names = [first[1]["content"][0]["picture"], second[0]["content"][0]["picture"]]
    assert (
        sorted(names) == sorted(Picture.objects.values_list("sha256", flat=True))
        and len(names) == 2
    )


def test_changed_picture_counts_as_another_conversation(client, episodes, sees, actor):
    ask(client, ASKED, **IN_A)
    changed = [
        ASKED[0],
        {"role": "user", "content": [shown(data_url(png(9))), HOW_MANY]},
        ONE,
        {"role": "user", "content": "more"},
    ]
    refused = refusal(openai.UnprocessableEntityError, ask, client, changed, **IN_A)
    assert (refused.code, refused.param) == ("conversation_differs", "messages[1]")


@pytest.mark.parametrize(
    ("content", "param"),
    [
        ([shown("https://example.org/a.png")], "messages[0].content[0].image_url.url"),
        ([HOW_MANY, shown("data:image/png;base64,aGk=")], "messages[0].content[1].image_url.url"),
        ([shown(data_url(png())), {"type": "input_audio"}], "messages[0].content[1]"),
    ],
)
def test_invalid_picture_is_rejected_by_name_and_takes_no_episode(
    client, episodes, sees, content, param
):
    refused = refusal(openai.BadRequestError, ask, client, [{"role": "user", "content": content}])
    assert (
        refused.param == param and not EpisodeTurn.objects.exists() and not Picture.objects.exists()
    )


def test_text_only_policy_rejects_pictures(client, episodes):
    refused = refusal(openai.BadRequestError, ask, client, ASKED)
    assert refused.param == "messages[1].content[0]" and "reads only text" in refused.message
