"""A rollout token by token: a long reply in sections, masked tokens and all sampling versions."""

from dataclasses import replace

import pytest
from PIL import Image

from apps.dashboard import shading
from apps.rollouts.models import Rollout, RolloutPayload
from apps.rollouts.payload import Tokens, pack
from apps.tasksets.models import Picture
from apps.tasksets.pictures import encode_drawn

pytestmark = pytest.mark.django_db


@pytest.fixture
def page(client, seeded, monkeypatch):
    """Show 40 tokens at a time of a reply of 90: v3 sampled the first 20, v4 the others; the last
    10 are masked.
    """
    monkeypatch.setattr(shading, "MAX_TOKENS", 40)
    kept = Tokens(
        (3, 4), tuple(range(6, 96)), (-0.1,) * 90, (1,) * 80 + (0,) * 10, ((0, 3), (20, 4))
    )
    RolloutPayload.objects.filter(rollout=seeded.rollout).update(data=pack(kept))
    client.force_login(seeded.alice)
    return lambda **asked: client.get(f"/rollouts/{seeded.rollout.pk}/", asked)


def test_segments_cover_the_whole_reply(page):
    answer = page()
    assert [(one.version, one.first, one.tokens) for one in answer.context["segments"]] == [
        (3, 0, 20),
        (4, 20, 70),
    ]
    assert "(70 tokens)" in answer.content.decode()


def test_long_reply_is_paged_by_links(page):
    shown = []
    first = 0
    while first is not None:
        answer = page(**{"from": first})
        shown += answer.context["shading"].tokens
        first = answer.context["shading"].after
    assert len(shown) == 90 and "← before" in answer.content.decode()
    later = page(**{"from": 40}).context["shading"].tokens
    assert later[0].version == 4 and all(token.version is None for token in later[1:])


def test_masked_tokens_are_explained_where_they_are_shown(page):
    assert "masked" not in page().content.decode()
    text = page(**{"from": 80}).content.decode()
    assert (
        "dotted underline</span>: masked, excluded from the loss" in text
        and 'title="Masked:' in text
    )


@pytest.mark.parametrize("first", ["x", "-1", "9" * 9])
def test_position_that_is_not_a_number_returns_404(page, first):
    assert page(**{"from": first}).status_code == 404


def test_position_beyond_the_end_shows_the_reply_length(page):
    assert "This reply has only" in page(**{"from": 900}).content.decode()


def test_picture_is_shown_at_its_turn(page, seeded):
    picture = encode_drawn(Image.new("RGB", (40, 20), "navy"))
    Picture.objects.keep(seeded.run.project, [picture])
    payload = RolloutPayload.objects.get(rollout=seeded.rollout)
    kept = replace(seeded.rollout.tokens, pictures=((picture.sha256, 2 + 5, 2 + 9),))
    RolloutPayload.objects.filter(pk=payload.pk).update(data=pack(kept))
    turns = [
        {"role": "assistant", "start": 0, "end": 4, "first": 0, "tokens": 4},
        {"role": "user", "start": 4, "end": 8, "first": 4, "tokens": 6},
        {"role": "assistant", "start": 8, "end": 9, "first": 10, "tokens": 80},
    ]
    Rollout.objects.filter(pk=seeded.rollout.pk).update(turns=turns)
    answer = page()
    assert [len(turn.pictures) for turn in answer.context["turns"]] == [0, 1, 0]
    assert f"/pictures/{picture.sha256}/" in answer.content.decode()
