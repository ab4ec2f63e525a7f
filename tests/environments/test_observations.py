"""What an environment may send as an observation, independent of the episode."""

import pytest

from apps.environments.errors import CannotPlay
from apps.environments.observations import check_observation, observation_text, opening

PICTURE = {"type": "image", "data": "iVBORw0KGgo="}
BY_ADDRESS = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}


@pytest.mark.parametrize(
    "content", [PICTURE, [PICTURE], [{"type": "text", "text": "what is it?"}, BY_ADDRESS]]
)
def test_picture_for_a_text_only_policy_is_rejected_with_the_reason(content):
    with pytest.raises(
        CannotPlay,
        match=(r"observation\[1\].content: contains a picture, but the policy reads only text"),
    ):
        check_observation(
            [{"role": "user", "content": "look"}, {"role": "user", "content": content}]
        )


@pytest.mark.parametrize(
    "content", [None, 3, [], [{"type": ["image"]}], {"type": {}}, [{"type": "text", "text": "x"}]]
)
def test_other_content_that_is_not_text_is_rejected(content):
    with pytest.raises(
        CannotPlay, match=r"observation\[0\]: must have exactly `role` and `content`, a text"
    ):
        check_observation([{"role": "user", "content": content}])


def test_task_text_and_first_picture_become_one_message():
    picture = {"type": "image", "picture": "ab", "width": 4, "height": 4}
    prompt = [{"role": "user", "content": "Count."}]
    (first,) = opening(prompt, [{"role": "user", "content": [picture]}])
    assert first["content"] == [{"type": "text", "text": "Count."}, picture]
    assert (
        observation_text([first, {"role": "user", "content": [picture]}])
        == "Count.\n[picture 1]\n\n[picture 2]"
    )
