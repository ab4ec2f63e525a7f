"""Pictures in prompts: shown at their final size with alternative text, and as words in lists."""

import io
import re

import pytest
from django.template import Context, Template
from django.urls import reverse
from PIL import Image

from apps.feedback.exporting.rows import RowSelection, export_groups
from apps.feedback.forms import FORMS
from apps.rollouts.models import Rollout
from apps.tasksets.messages import picture_part
from apps.tasksets.models import Picture, Task
from apps.tasksets.pictures import encode_drawn
from tests.browser.rating import asking

ASKED = sorted(set(FORMS) - {"flag"})


def show_pictures(project, width: int = 100, height: int = 60) -> str:
    """Put a picture into every task of the project; return the picture's name."""
    picture = encode_drawn(Image.new("RGB", (width, height), "navy"))
    Picture.objects.keep(project, [picture])
    words = {"type": "text", "text": "How **many** are there?"}
    Task.objects.filter(taskset__project=project).update(
        prompt=[{"role": "user", "content": [picture_part(picture), words]}]
    )
    return picture.sha256


@pytest.fixture
def asked(db):
    return asking("stars", groups=1)


@pytest.fixture
def name(asked) -> str:
    return show_pictures(asked.run.project)


@pytest.fixture
def alice_client(client, asked):
    client.force_login(asked.people["alice"])
    return client


def image(html: str, name: str) -> str:
    """Return the element that shows the picture."""
    found = re.search(f'<img[^>]*src="/pictures/{name}/"[^>]*>', html)
    assert found, "the picture is not on the page"
    return found[0]


@pytest.mark.parametrize("address", ["rollout", "live-follow"])
def test_rollout_shows_the_picture_and_the_text_of_its_prompt(alice_client, asked, name, address):
    html = alice_client.get(reverse(address, args=[Rollout.objects.first().pk])).content.decode()
    assert 'width="200" height="120"' in image(
        html, name
    )  # small pictures are shown larger, by a whole factor
    assert 'alt="Picture 1"' in image(html, name)
    assert "are there?" in html


@pytest.mark.parametrize("form", ASKED)
def test_each_rating_form_shows_the_picture(client, db, form):
    asked = asking(form, groups=1)
    name = show_pictures(asked.run.project, 300, 200)
    client.force_login(asked.bob)
    html = client.post(reverse("rate-next"), {}).content.decode()
    assert f'data-form="{form}"' in html
    assert 'width="300" height="200"' in image(html, name)
    assert "<strong>many</strong>" in html


def test_live_page_and_taskset_page_show_small_pictures(alice_client, asked, name):
    wall = alice_client.get(reverse("live"), {"run": asked.run.pk}).content.decode()
    taskset = alice_client.get(reverse("taskset", args=["lab", "tone"])).content.decode()
    assert 'width="56" height="34"' in image(wall, name) and 'width="56" height="34"' in image(
        taskset, name
    )
    assert "[picture 1]" in wall and "[picture 1]" in taskset


def test_rest_returns_picture_parts_and_the_png(alice_client, name):
    said = alice_client.get(f"/api/v1/rollouts/{Rollout.objects.first().pk}/").json()
    assert said["prompt"][0]["content"][0] == {
        "type": "image",
        "picture": name,
        "width": 100,
        "height": 60,
    }
    answer = alice_client.get(f"/api/v1/pictures/{name}/")
    assert answer["Content-Type"] == "image/png"
    assert Image.open(io.BytesIO(answer.content)).size == (100, 60)


def test_exports_replace_a_picture_with_a_marker(seeded):
    show_pictures(seeded.run.project)
    assert {row["prompt"][0]["content"] for row in export_groups(RowSelection(seeded.run))} == {
        "[picture 1]\nHow **many** are there?"
    }


@pytest.mark.parametrize("plain", [True, False])
def test_text_beside_a_picture_is_escaped(plain):
    hostile = {"type": "text", "text": "<script>alert(1)</script>"}
    content = [picture_part(encode_drawn(Image.new("RGB", (4, 4)))), hostile]
    html = Template("{% load marks %}{% render_content content is_plain=plain %}").render(
        Context({"content": content, "plain": plain})
    )
    assert "<script" not in html and "alert(1)" in html and html.count("<img") == 1


def test_only_four_of_many_small_pictures_are_shown():
    prompt = [
        {
            "role": "user",
            "content": [picture_part(encode_drawn(Image.new("RGB", (n, 4)))) for n in range(1, 7)],
        }
    ]
    html = Template("{% load marks %}{% miniatures prompt %}").render(Context({"prompt": prompt}))
    assert html.count("<img") == 4 and "+2" in html
