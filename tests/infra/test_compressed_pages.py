"""Pages and JSON are compressed for clients that accept it; streams are not. About 3 s."""

import gzip
import json

import pytest
from django.test import Client
from django.urls import reverse

GZIP = {"Accept-Encoding": "gzip"}


@pytest.fixture
def browser(alice) -> Client:
    client = Client()
    client.force_login(alice)
    return client


def test_compressed_page_is_less_than_a_third_of_its_size_with_the_same_text(browser, run):
    address = reverse("run", args=[run.project.slug, run.slug])
    plain = browser.get(address)
    packed = browser.get(address, headers=GZIP)
    assert packed["Content-Encoding"] == "gzip" and "Content-Encoding" not in plain
    assert "Accept-Encoding" in packed["Vary"]
    assert len(packed.content) < len(plain.content) / 3
    assert run.slug in gzip.decompress(packed.content).decode()


def test_size_of_the_same_compressed_page_varies(browser, run):
    """Check that random bytes hide what the page contains (BREACH)."""
    address = reverse("run", args=[run.project.slug, run.slug])
    sizes = {len(browser.get(address, headers=GZIP).content) for _ in range(8)}
    assert len(sizes) > 1


def test_json_is_compressed(browser, run):
    answer = browser.get(f"/api/v1/runs/{run.pk}/", headers=GZIP)
    assert answer["Content-Type"].startswith("application/json")
    assert answer["Content-Encoding"] == "gzip"
    assert json.loads(gzip.decompress(answer.content))["slug"] == run.slug


def test_stream_is_not_compressed(browser, run):
    answer = browser.get(f"/api/v1/runs/{run.pk}/exports/events/", headers=GZIP)
    assert answer.status_code == 200 and answer.streaming
    assert "Content-Encoding" not in answer
