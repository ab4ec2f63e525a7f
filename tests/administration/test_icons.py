"""The reduced icon font of the admin site has the icons that its pages show."""

import re

from django.contrib.staticfiles import finders

from rftweb.administration.look import RAIL
from scripts.admin_icons import FONT, NAMES, theme_folder

SHOWN = re.compile(r"material-symbols-outlined[^>]*>\s*([a-z_0-9]+)\s*<")


def offered() -> set[str]:
    return set(NAMES.read_text(encoding="utf-8").split())


def test_every_icon_of_the_sidebar_is_in_the_font():
    assert {item["icon"] for part in RAIL for item in part["items"]} <= offered()


def test_every_icon_in_the_theme_templates_is_in_the_font():
    pages = theme_folder().glob("templates/**/*.html")
    shown = {name for page in pages for name in SHOWN.findall(page.read_text("utf-8"))}
    assert len(shown) > 20 and shown <= offered()


def test_django_finds_the_reduced_font_first():
    found = finders.find(str(FONT))
    assert found == str(NAMES.with_name(FONT.name))
