"""`manage.py taskset import` detects layouts from the first rows, and can preview what it would
store."""

import io
import json

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from apps.tasksets.models import Task, Taskset

pytestmark = pytest.mark.django_db
SOLVED = [{"question": f"{n}+1?", "answer": f"So.\n#### {n + 1}", "id": n} for n in range(3)]
NAMED = [{"problem": "2+2?", "answer": "4", "subject": "Number Theory", "system": "Be brief."}]


@pytest.fixture
def import_file(project, tmp_path):
    def run(rows: list, *words: str, name: str = "a.json") -> str:
        (tmp_path / name).write_text(json.dumps(rows))
        out = io.StringIO()
        call_command("taskset", "import", str(tmp_path / name), *words, stdout=out)
        return out.getvalue()

    return run


def test_a_preview_names_the_layout_and_stores_nothing(import_file):
    said = import_file(SOLVED, "--preview")
    assert (
        "layout: GSM8K" in said and "skipped: id (3)" in said and "→ answer: {'value': '1'}" in said
    )
    assert not Taskset.objects.exists()


def test_layout_is_detected_from_rows_and_named_columns_are_added(import_file):
    said = import_file(SOLVED, "--meta", "id")
    assert "taskset a: 3 tasks" in said and "not taken" not in said
    assert Task.objects.get(index=2).meta == {"solution": "So.\n#### 3", "id": 2}


def test_named_columns_override_the_detected_layout(import_file):
    import_file(SOLVED, "--prompt", "question")
    assert Task.objects.get(index=0).answer == {"value": "So.\n#### 1"}


@pytest.mark.parametrize("words", [("--prompt", "problem"), ()])
def test_hub_names_become_domains_and_system_texts_become_messages(import_file, words):
    import_file(NAMED, "--domain", "subject", *words)
    task = Task.objects.get()
    assert task.domain == "number-theory"
    assert task.prompt == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "2+2?"},
    ]


def test_a_row_of_another_layout_is_a_bad_line(import_file):
    with pytest.raises(
        CommandError, match="line 4: the row does not match the file's layout, GSM8K"
    ):
        import_file([*SOLVED, {"question": "9?", "answer": "9"}])
    assert not Taskset.objects.exists()


def test_missing_picture_file_refuses_its_row(import_file):
    with pytest.raises(CommandError, match=r"'one\.jpg' is not in the folder"):
        import_file(
            [{"images": ["one.jpg"], "problem": "<image>Who is this?", "answer": "4"}],
            "--prompt",
            "problem",
        )
