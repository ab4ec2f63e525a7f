"""The style guide: all parts of the pages side by side, for developers, in debug mode."""

import pytest
from django.contrib.auth.models import AnonymousUser

from apps.dashboard.views.styleguide import styleguide

PARTS = ("swatches", "chip", "gauge", "badge", "tokens", "switch", "note error", "empty")


def test_styleguide_shows_every_part(rf):
    request = rf.get("/styleguide/")
    request.user = AnonymousUser()
    html = styleguide(request).content.decode()
    assert [part for part in PARTS if part not in html] == []


@pytest.mark.django_db
def test_styleguide_returns_404_outside_debug_mode(client):
    assert client.get("/styleguide/").status_code == 404
