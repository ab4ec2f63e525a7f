"""Episodes with pictures as JSON Lines: exported completely and imported again, with the picture
and its position.
"""

import base64
import json
from dataclasses import replace

import pytest

from apps.accounts.models import Project
from apps.environments.models import EpisodeTurn
from apps.environments.traces.exporting import write_trace_lines
from apps.environments.traces.importing import Destination, import_episodes
from apps.environments.traces.looking import BadEpisodes
from apps.policies.models import Policy
from apps.rollouts.models import Rollout, RolloutPayload
from apps.rollouts.payload import pack
from apps.runs.models import Run
from apps.tasksets.messages import picture_part
from apps.tasksets.models import Picture
from apps.tasksets.pictures import encode_picture
from tests.environments.traces.conftest import TOKENS
from tests.tasksets.test_messages import png

KEPT = encode_picture(png())
SEEN = replace(TOKENS, completion_ids=(10, 11, 20, 20, 12, 13), pictures=((KEPT.sha256, 5, 7),))


@pytest.fixture
def pictured(played) -> Run:
    """Return a run whose policy sees pictures; every second observation holds one of two tokens."""
    Picture.objects.keep(played.project, [KEPT])
    Policy.objects.update(sees_pictures=True)
    said = [{"role": "user", "content": [picture_part(KEPT), {"type": "text", "text": "lower"}]}]
    EpisodeTurn.objects.filter(number=1).update(observation=said)
    RolloutPayload.objects.update(data=pack(SEEN))
    return played


@pytest.fixture
def elsewhere(policy) -> Destination:
    """Return a project with none of the pictures, and the same policy."""
    other = Project.objects.create(slug="other", title="Another")
    there = Policy.objects.create(
        project=other,
        slug="tiny",
        folder=policy.folder,
        fingerprint=policy.fingerprint,
        architecture=policy.architecture,
        parameters=policy.parameters,
        context_tokens=policy.context_tokens,
        sees_pictures=True,
    )
    return Destination(other, "again", there)


def test_picture_is_exported_as_png_with_its_position(pictured):
    trace = json.loads(next(write_trace_lines(pictured)))["traces"][0]
    parts = [node["message"]["content"] for node in trace["nodes"]][2]
    assert (
        base64.b64decode(parts[0]["image_url"]["url"].removeprefix("data:image/png;base64,"))
        == KEPT.png
    )
    assert parts[1] == {"type": "text", "text": "lower"}
    assert trace["info"]["rftweb"]["pictures"] == [{"picture": KEPT.sha256, "first": 5, "past": 7}]


def test_pictures_are_the_same_after_export_and_import(pictured, file_of, elsewhere):
    again = import_episodes(file_of(pictured), elsewhere).run
    picture = Picture.objects.get(project=elsewhere.project)
    assert (picture.sha256, bytes(picture.png)) == (KEPT.sha256, KEPT.png)
    first = Rollout.objects.filter(run=again).select_related("payload").order_by("pk").first()
    assert first.tokens.pictures == SEEN.pictures
    observation = (
        EpisodeTurn.objects.filter(episode__run=again, number=1)
        .values_list("observation", flat=True)
        .first()
    )
    assert observation[0]["content"][0] == picture_part(KEPT)
    before, after = (list(map(json.loads, write_trace_lines(run))) for run in (pictured, again))
    assert [line["traces"][0]["nodes"] for line in after] == [
        line["traces"][0]["nodes"] for line in before
    ]


def lines(run: Run, **changes: object) -> list[dict]:
    """Return the run's lines, the first with other `pictures` or another `url` of its picture."""
    found = list(map(json.loads, write_trace_lines(run)))
    trace = found[0]["traces"][0]
    if "url" in changes:
        trace["nodes"][2]["message"]["content"][0]["image_url"]["url"] = changes["url"]
    if "pictures" in changes:
        trace["info"]["rftweb"]["pictures"] = changes["pictures"]
    return found


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"url": "data:image/png;base64,aGVsbG8="},
            "nodes.2.message.content[0].image_url.url: is not a supported image",
        ),
        ({"url": "https://example.org/a.png"}, "line 1: traces.0.nodes.2.message.content"),
        (
            {"url": "data:image/png;base64," + base64.b64encode(png(9)).decode()},
            "must name the 1 pictures of its messages",
        ),
        ({"pictures": []}, "info.rftweb.pictures: must name the 1 pictures"),
        (
            {"pictures": [{"picture": KEPT.sha256, "first": 4, "past": 6}]},
            "pictures.0: must be a range of one token",
        ),
        (
            {"pictures": [{"picture": KEPT.sha256, "first": 7, "past": 8}]},
            "pictures.0: must be a range of one token",
        ),
        (
            {"pictures": [{"picture": KEPT.sha256, "first": 5, "past": 5}]},
            "pictures.0: must be a range of one token",
        ),
    ],
)
def test_invalid_or_misplaced_picture_is_rejected_with_its_position(
    pictured, file_of, elsewhere, changes, words
):
    with pytest.raises(BadEpisodes) as refused:
        import_episodes(file_of(lines=lines(pictured, **changes)), elsewhere)
    assert words in str(refused.value)


def test_text_only_policy_cannot_import_pictures(pictured, file_of, elsewhere):
    elsewhere.policy.sees_pictures = False
    with pytest.raises(BadEpisodes, match="contain a picture; the policy 'tiny' reads only text"):
        import_episodes(file_of(pictured), elsewhere)
