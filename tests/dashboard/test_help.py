"""The help: pages of docs/, search, links from the site's pages, and explanations of terms."""

import re
from html import unescape
from pathlib import Path

import pytest
from django.template import Context, Template
from django.urls import get_resolver, reverse

from apps.dashboard.help import library
from apps.dashboard.help.glossary import terms
from apps.dashboard.help.places import PLACES
from apps.dashboard.help.rendering import render_help_page
from apps.dashboard.help.search import search_help
from scripts.check_links import read_anchors

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r'(?:href|src)="(/help/[^"#]*)(?:#([^"]*))?"')
ID = re.compile(r' id="([^"]+)"')
TERM = re.compile(r'{% term "([^"]+)" %}')


def anchors_of(address: str) -> set[str]:
    name = address.removeprefix("/help/").rstrip("/")
    return {unescape(found) for found in ID.findall(render_help_page(name).html)}


def test_contents_have_four_groups_and_list_every_page_once():
    groups = library.read_help_groups()
    assert [group.title for group in groups] == [
        "Tutorial",
        "How-to guides",
        "Reference",
        "Explanation",
    ]
    listed = [page.name for group in groups for page in group.pages if not page.anchor]
    assert len(listed) == len(set(listed))
    decisions = {name for name in library.read_help_pages() if name.startswith("adr/")}
    assert set(listed) == set(library.read_help_pages()) - decisions - {""}


def test_headings_have_the_same_anchors_as_on_github():
    wrong = {}
    for page in library.read_help_pages().values():
        anchors = read_anchors(library.DOCS / page.file)
        missing = anchors - set(ID.findall(render_help_page(page.name).html))
        if len(missing) > 1:  # the page's own title is in its header
            wrong[page.name] = missing
    assert wrong == {}


def test_links_between_pages_lead_to_existing_pages_anchors_and_files():
    broken = []
    for name in library.read_help_pages():
        for address, anchor in LINK.findall(render_help_page(name).html):
            if address.startswith("/help/files/"):
                found = address.removeprefix("/help/files/") in library.files()
            else:
                page = address.removeprefix("/help/").rstrip("/")
                found = page in library.read_help_pages()
                found = found and (not anchor or unescape(anchor) in anchors_of(address))
            if not found:
                broken.append((name, address, anchor))
    assert broken == []


def test_link_out_of_the_documentation_becomes_plain_text():
    assert "../" not in render_help_page("plugins").html
    assert "public" in render_help_page("plugins").html


def test_scripts_in_a_page_are_removed(tmp_path, monkeypatch):
    (tmp_path / "x.md").write_text('# X\n\n<script>alert(1)</script><a href="javascript:x">y</a>\n')
    page = library.Page("x", "x.md", "X", "")
    monkeypatch.setattr(library, "DOCS", tmp_path)
    monkeypatch.setattr("apps.dashboard.help.rendering.read_help_pages", lambda: {"x": page})
    html = render_help_page.__wrapped__("x").html
    assert "script" not in html


def test_every_help_place_is_a_site_page_and_an_existing_anchor():
    names = set(get_resolver().reverse_dict)
    assert [name for name in PLACES if name not in names] == []
    wrong = []
    for name, place in PLACES.items():
        page, _, anchor = place.partition("#")
        if anchor not in anchors_of(f"/help/{page}/"):
            wrong.append((name, place))
    assert wrong == []


def test_functions_mentioned_with_their_file_exist():
    named = re.findall(
        r"`([\w/]+\.py)`:\s+`(\w+)`", library.read_help_pages()["explanation/where"].text()
    )
    assert len(named) >= 9
    defined = [(file, name) for file, name in named if f"def {name}(" in (ROOT / file).read_text()]
    assert defined == named


def test_search_finds_headings_before_text_and_marks_the_line():
    first, *others = search_help("gold item")
    assert first.title == "gold item" and first.address == "/help/glossary/#term-gold-item"
    assert "<mark>" in first.line and others
    assert search_help("nosuchword") == [] and search_help(" ") == []
    assert search_help("<b>") == [] or "<b>" not in search_help("<b>")[0].line


def test_terms_equal_those_of_the_glossary():
    assert terms()["step"].startswith("One optimizer step")
    rows = (library.DOCS / "glossary.md").read_text().count("\n| ")
    assert len(terms()) == rows - (library.DOCS / "glossary.md").read_text().count("| term |")


def test_terms_used_in_templates_are_in_the_glossary():
    named = {
        (path.name, name)
        for path in (ROOT / "templates").rglob("*.html")
        for name in TERM.findall(path.read_text())
    }
    assert named
    assert {pair for pair in named if pair[1] not in terms()} == set()


def test_term_is_explained_once_on_a_page(rf):
    template = Template('{% load help_marks %}{% term "staleness" %}{% term "staleness" %}')
    html = template.render(Context({"request": rf.get("/")}))
    assert html.count("tooltip") == 1
    assert 'href="/help/glossary/#term-staleness"' in html
    assert terms()["staleness"] in unescape(html)


@pytest.mark.django_db
def test_every_page_opens(client, seeded):
    client.force_login(seeded.bob)
    for page in library.read_help_pages().values():
        answer = client.get(page.address)
        assert answer.status_code == 200, page.address
    picture = client.get(reverse("help-file", args=["learning.svg"]))
    assert picture.status_code == 200 and picture["Content-Type"] == "image/svg+xml"


@pytest.mark.django_db
@pytest.mark.parametrize(
    "path", ["nothing/", "files/README.md", "files/../pyproject.toml", "files/%2e%2e/x.png"]
)
def test_unknown_page_is_404(client, seeded, path):
    client.force_login(seeded.bob)
    assert client.get(f"/help/{path}").status_code == 404


@pytest.mark.django_db
def test_query_that_is_too_long_is_refused_and_kept(client, seeded):
    client.force_login(seeded.bob)
    answer = client.get("/help/search/", {"q": "x" * 101})
    assert answer.status_code == 422 and b"x" * 101 in answer.content
    assert b"help-wrong" in answer.content


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("name", "place"),
    [("runs", "/help/run-pages/#list-of-runs"), ("help", "/help/"), ("rate", "/help/people/#")],
)
def test_page_links_to_its_place_in_the_help(client, seeded, name, place):
    client.force_login(seeded.bob)
    html = client.get(reverse(name)).content.decode()
    assert f'class="help-link" href="{place}' in html


@pytest.mark.django_db
def test_raters_have_help_in_their_navigation(client, seeded):
    client.force_login(seeded.bob)
    assert b'data-go="p"' in client.get("/rate/").content
