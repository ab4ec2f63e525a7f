"""Pictures that an environment sends over REST: stored for policies that accept pictures, and
refused with the reason for others.
"""

import io

import pytest
from PIL import Image

from apps.environments.models import EpisodeTurn
from apps.policies.models import Policy
from apps.tasksets.models import Picture
from tests.api.episodes import acted, episode, maze, turn, waiting  # noqa: F401
from tests.tasksets.test_messages import HOW_MANY, data_url, png, shown

pytestmark = pytest.mark.django_db
SEEN = [{"role": "user", "content": [shown(data_url(png())), HOW_MANY]}]


@pytest.fixture
def sees(policy) -> None:
    Policy.objects.update(sees_pictures=True)


def test_picture_for_a_text_only_policy_is_refused_with_the_reason(maze, episode):
    answer = turn(maze, episode["id"], observation=SEEN, timeout_s=0)
    assert answer.status_code == 422
    assert (
        "observation[0].content: contains a picture" in answer.json()["detail"]
        and not Picture.objects.exists()
    )


@pytest.mark.usefixtures("sees")
def test_picture_sent_twice_is_stored_once(maze, episode, run):
    for _ in range(2):
        assert turn(maze, episode["id"], observation=SEEN, number=0, timeout_s=0).status_code in (
            200,
            202,
        )
    (picture,) = Picture.objects.all()
    assert picture.project == run.project
    content = EpisodeTurn.objects.get().observation[0]["content"]
    assert content == [
        {"type": "image", "picture": picture.sha256, "width": 8, "height": 8},
        HOW_MANY,
    ]
    acted(episode["id"], 0)
    other = [{"role": "user", "content": [shown(data_url(png(9))), HOW_MANY]}]
    assert turn(maze, episode["id"], observation=other, number=0, timeout_s=0).status_code == 409
    assert Picture.objects.count() == 1


@pytest.mark.usefixtures("sees")
@pytest.mark.parametrize(
    ("content", "why"),
    [
        (
            [shown("https://example.org/a.png")],
            "observation[0].content[0].image_url.url: must be data:image",
        ),
        ([shown("data:image/png;base64,aGVsbG8=")], "is not a supported image"),
        (
            [HOW_MANY, {"type": "image", "path": "/etc/passwd"}],
            "observation[0].content[1].path: a file reference is only allowed",
        ),
        ([{"type": "image", "picture": "0" * 64}], "observation[0].content[0]: must be a part"),
        ([{"type": "input_image", "image_url": "x"}], "must be a part"),
        ({"type": "image"}, "must be text or a list"),
        ([HOW_MANY], "must have exactly `role` and `content`, a text"),
    ],
)
def test_invalid_picture_is_refused_with_its_location(maze, episode, content, why):
    answer = turn(
        maze, episode["id"], observation=[{"role": "user", "content": content}], timeout_s=0
    )
    assert answer.status_code == 422 and why in answer.json()["detail"]
    assert not EpisodeTurn.objects.exists() and not Picture.objects.exists()


@pytest.mark.usefixtures("sees")
def test_only_the_user_role_can_show_pictures(maze, episode):
    answer = turn(maze, episode["id"], observation=[{**SEEN[0], "role": "tool"}], timeout_s=0)
    assert (
        answer.status_code == 422
        and "only the role user can show pictures" in answer.json()["detail"]
    )


@pytest.mark.usefixtures("sees")
def test_episode_page_shows_the_picture_and_rest_returns_it(maze, episode, client, alice):
    turn(maze, episode["id"], observation=SEEN, timeout_s=0)
    name = Picture.objects.get().sha256
    client.force_login(alice)
    page = client.get(f"/episodes/{episode['id']}/").content.decode()
    assert f'src="/pictures/{name}/" width="240" height="240"' in page and "How many?" in page
    assert Image.open(io.BytesIO(client.get(f"/api/v1/pictures/{name}/").content)).size == (8, 8)
