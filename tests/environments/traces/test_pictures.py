"""Episodes with pictures as files of lines: they go out whole, and are not taken back."""

import base64
import json

import pytest

from apps.environments.models import EpisodeTurn
from apps.environments.traces.exporting import lines_of
from apps.environments.traces.reading import BadLine, read
from apps.tasksets.messages import shown
from apps.tasksets.models import Picture
from apps.tasksets.pictures import encode
from tests.tasksets.test_messages import png


@pytest.fixture
def line(played) -> bytes:
    """Of an episode whose second observation shows a picture."""
    kept = encode(png())
    Picture.objects.keep(played.project, [kept])
    said = [{"role": "user", "content": [shown(kept), {"type": "text", "text": "lower"}]}]
    EpisodeTurn.objects.filter(number=1).update(observation=said)
    return next(lines_of(played))


def test_a_picture_goes_out_as_its_png(line):
    parts = [node["message"]["content"] for node in json.loads(line)["traces"][0]["nodes"]][2]
    assert base64.b64decode(parts[0]["image_url"]["url"].removeprefix("data:image/png;base64,")) == encode(png()).png
    assert parts[1] == {"type": "text", "text": "lower"}


def test_it_is_not_taken_back_and_the_place_is_told(line):
    with pytest.raises(BadLine, match=r"traces.0.nodes.2.message.content: shows a picture"):
        read(line)
