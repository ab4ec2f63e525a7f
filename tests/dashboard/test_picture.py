"""A picture's address: its bytes to members of the project, kept by the browser for ever, and
nothing to others.
"""

import pytest

from apps.tasksets.models import Picture
from tests.tasksets.test_messages import png


@pytest.fixture
def picture(project) -> Picture:
    return Picture.take(project, png())


def test_a_member_gets_the_png_and_may_keep_it(client, bob, picture):
    client.force_login(bob)
    answer = client.get(f"/pictures/{picture.sha256}/")
    assert (answer.status_code, answer["Content-Type"]) == (200, "image/png")
    assert answer.content == bytes(picture.png)
    assert "immutable" in answer["Cache-Control"] and "private" in answer["Cache-Control"]
    assert answer["X-Content-Type-Options"] == "nosniff"


def test_to_a_stranger_it_does_not_exist(client, carol, picture):
    client.force_login(carol)
    assert client.get(f"/pictures/{picture.sha256}/").status_code == 404


def test_nobody_is_led_to_the_login(client, picture):
    assert client.get(f"/pictures/{picture.sha256}/").status_code == 302


@pytest.mark.parametrize("name", ["0" * 64, "0" * 63, "A" * 64])
def test_a_name_that_no_picture_has_is_not_found(client, bob, picture, name):
    client.force_login(bob)
    assert client.get(f"/pictures/{name}/").status_code == 404
