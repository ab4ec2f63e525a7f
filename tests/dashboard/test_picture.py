"""The address of a picture: members of the project get its bytes, which the browser caches for
ever; others get nothing.
"""

import pytest

from apps.tasksets.models import Picture
from tests.tasksets.test_messages import png


@pytest.fixture
def picture(project) -> Picture:
    return Picture.take(project, png())


def test_member_gets_the_png_with_private_immutable_caching(client, bob, picture):
    client.force_login(bob)
    answer = client.get(f"/pictures/{picture.sha256}/")
    assert (answer.status_code, answer["Content-Type"]) == (200, "image/png")
    assert answer.content == bytes(picture.png)
    assert "immutable" in answer["Cache-Control"] and "private" in answer["Cache-Control"]
    assert answer["X-Content-Type-Options"] == "nosniff"


def test_stranger_gets_404_for_a_picture(client, carol, picture):
    client.force_login(carol)
    assert client.get(f"/pictures/{picture.sha256}/").status_code == 404


def test_picture_redirects_a_visitor_who_is_not_signed_in(client, picture):
    assert client.get(f"/pictures/{picture.sha256}/").status_code == 302


@pytest.mark.parametrize("name", ["0" * 64, "0" * 63, "A" * 64])
def test_unknown_picture_name_returns_404(client, bob, picture, name):
    client.force_login(bob)
    assert client.get(f"/pictures/{name}/").status_code == 404
