"""The parts of the pages side by side: for builders, in debug mode."""

import pytest
from django.contrib.auth.models import AnonymousUser

from apps.dashboard.views.styleguide import styleguide

PARTS = ("swatches", "chip", "gauge", "badge", "tokens", "switch", "note error", "empty")


def test_every_part_is_shown(rf):
    request = rf.get("/styleguide/")
    request.user = AnonymousUser()
    html = styleguide(request).content.decode()
    assert [part for part in PARTS if part not in html] == []


@pytest.mark.django_db
def test_there_is_none_outside_debug_mode(client):
    assert client.get("/styleguide/").status_code == 404
