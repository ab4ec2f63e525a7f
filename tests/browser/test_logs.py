"""A log in the browser: a line shows all its fields when it is opened, and stays open while newer
lines arrive.
"""

from datetime import UTC, datetime

import pytest
from django.urls import reverse

from apps.runs.models import LogLine

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def say(run, event: str, **fields: object) -> LogLine:
    return LogLine.objects.create(
        event=event,
        run=run,
        level=40,
        at=datetime.now(UTC),
        worker="scorer@here:1:1",
        fields=fields,
    )


def test_opened_line_is_fetched_once_and_stays_open_when_new_lines_arrive(visit, seeded):
    run = seeded["run"]
    line = say(run, "engine_died", traceback="Traceback (most recent call last)")
    window = visit(seeded["alice"])
    page = window.open(reverse("run-logs", args=["lab", run.slug]))
    page.click(f"#line-{line.pk} summary")
    page.wait_for_selector(f"#more-{line.pk} pre:has-text('Traceback')")
    page.locator("h1").click()
    page.evaluate("document.activeElement.blur()")  # a focused line is not replaced
    newer = say(run, "engine_started")
    page.wait_for_selector(f"#line-{newer.pk}")
    assert page.locator(f"#line-{line.pk}[open] pre").inner_text().startswith("Traceback")
    own = reverse("log-line", args=[line.pk])
    assert len([url for url in window.fetched if own in url]) == 1
    assert window.complaints == []
