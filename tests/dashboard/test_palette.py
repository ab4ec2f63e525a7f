"""The search of the command palette: it finds what the user may open, and nothing else."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from apps.accounts.models import Membership
from apps.runs.models import Run
from tests.dashboard.growing import grow_runs

OPTION = re.compile(r'<a role="option"[^>]*href="([^"]+)"')


def found(client, words: str, run: str = "") -> list[str]:
    html = client.get(reverse("find-rows"), {"words": words, "run": run}).content.decode()
    return OPTION.findall(html)


def test_a_run_is_found_by_words_of_its_name_and_title(client, seeded):
    client.force_login(seeded.bob)
    address = reverse("run", args=["lab", "tone-7"])
    assert address in found(client, "TONE")
    assert address in found(client, "polite 7")
    assert address not in found(client, "tone polite nothing")


def test_strangers_find_nothing_of_the_project(client, seeded):
    client.force_login(seeded.carol)
    for words in ("tone", "lab", "maze", "bob"):
        assert [url for url in found(client, words, "lab/tone-7") if "/lab" in url] == []


def test_last_search_word_selects_a_page_of_the_run(client, seeded):
    client.force_login(seeded.alice)
    assert reverse("run-gold", args=["lab", "tone-7"]) in found(client, "tone gold")


@pytest.mark.parametrize("person", ["alice", "bob", "carol"])
def test_every_search_result_opens(client, seeded, person):
    client.force_login(getattr(seeded, person))
    searches = ("", "s", "tone s", "e", "a")
    found_by = {url: words for words in searches for url in found(client, words, "lab/tone-7")}
    answers = {url: client.get(url, follow=True).status_code for url in found_by}
    broken = {url: status for url, status in answers.items() if status != 200}
    assert broken == {}, f"found by {[found_by[url] for url in broken]}"


def test_pages_of_the_current_run_come_first_in_search(client, seeded):
    client.force_login(seeded.alice)
    assert found(client, "cost", "lab/tone-7")[0] == reverse("run-cost", args=["lab", "tone-7"])
    assert found(client, "cost") == []


def test_run_settings_are_found_only_by_people_who_may_change_them(client, seeded):
    client.force_login(seeded.alice)
    [url] = [url for url in found(client, "learning rate", "lab/tone-7") if "#knob-" in url]
    page = client.get(url.partition("#")[0]).content.decode()
    assert f'id="{url.partition("#")[2]}"' in page
    client.force_login(seeded.bob)
    assert [url for url in found(client, "learning rate", "lab/tone-7") if "#knob-" in url] == []


def test_only_owners_find_people(client, seeded):
    client.force_login(seeded.alice)
    assert reverse("project", args=["lab"]) in found(client, "bob")
    Membership.objects.filter(user=seeded.alice).update(role="researcher")
    assert found(client, "bob") == []


def test_rows_and_queries_do_not_grow_with_the_runs(client, seeded):
    client.force_login(seeded.alice)
    grow_runs(seeded.run, 20)
    with CaptureQueriesContext(connection) as few:
        rows = found(client, "run")
    grow_runs(seeded.run, 200)
    with CaptureQueriesContext(connection) as many:
        assert len(found(client, "run")) == len(rows) < 20
    assert Run.objects.count() > 200 and len(many) <= len(few)


def test_names_are_escaped_and_long_search_texts_are_accepted(client, seeded):
    Run.objects.filter(pk=seeded.run.pk).update(title="<b>bold</b>")
    client.force_login(seeded.alice)
    answer = client.get(reverse("find"), {"words": "bold" + " x" * 500})
    assert answer.status_code == 200 and b"<b>bold" not in answer.content


def test_search_page_lists_matches_as_links(client, seeded):
    client.force_login(seeded.alice)
    html = client.get(reverse("find"), {"words": "tone-7"}).content.decode()
    assert f'href="{reverse("run", args=["lab", "tone-7"])}"' in html
