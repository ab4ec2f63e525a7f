"""A file in a browser: uploaded, mapped by its preview and imported, with the production server."""

import json

import pytest

from apps.tasksets.models import TasksetImport
from tests.browser.conftest import DESKTOP, PHONE
from workers.importing.importing import import_next_file

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]


@pytest.mark.parametrize(
    ("viewport", "scheme"), [(DESKTOP, "light"), (PHONE, "dark")], ids=["desktop", "phone"]
)
def test_large_file_is_uploaded_previewed_and_imported(visit, seeded, tmp_path, viewport, scheme):
    """The page continues by itself when the worker has read the first rows, and follows
    the import to its end.
    """
    rows = [json.dumps({"question": f"{n}+1 {'=' * 900}", "solution": n + 1}) for n in range(2_500)]
    (tmp_path / "sums.jsonl").write_text("\n".join(rows))
    assert (tmp_path / "sums.jsonl").stat().st_size > 2_000_000
    project = seeded["run"].project
    window = visit(seeded["alice"], viewport, scheme)
    page = window.open(f"/imports/of/{project.slug}/")
    page.set_input_files("#file", tmp_path / "sums.jsonl")
    page.get_by_role("button", name="Upload and preview").click()
    page.get_by_text("waiting for a worker").wait_for()
    page.screenshot(path=tmp_path / "waiting.png", full_page=True)
    assert import_next_file("test")
    page.get_by_text("First 20 rows").wait_for()
    assert page.locator("#prompt").input_value() == "question"
    page.screenshot(path=tmp_path / "look.png", full_page=True)
    page.get_by_role("button", name="Import", exact=True).click()
    page.get_by_text("waiting for a worker").wait_for()
    assert import_next_file("test")
    page.get_by_text("2,500 tasks").wait_for()
    assert TasksetImport.objects.get().taskset.size == 2_500
    assert window.complaints == []
