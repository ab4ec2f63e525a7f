"""A file of tasks in the browser: uploaded, previewed with its columns and first rows, imported by
a worker, and shown until it ends.
"""

import io
import json

import pyarrow as arrow
import pyarrow.parquet as pq
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from apps.accounts.models import AuditEntry
from apps.dashboard.views import imports
from apps.tasksets import import_files
from apps.tasksets.models import Taskset, TasksetImport
from tests.dashboard.import_pages import (  # noqa: F401  (fixtures)
    ROWS,
    State,
    alice_client,
    choose,
    folder,
    lines,
    page,
    previewed,
    send,
)
from workers.importing.importing import import_next_file


def test_uploaded_file_is_previewed_with_guessed_columns_and_not_stored(send, page):
    one = send(lines(*ROWS))
    html = page("taskset-import", one.pk)
    assert (one.state, one.slug, one.how["prompt"], one.how["answer"]) == (
        State.LOOKED_AT,
        "my-sums",
        "question",
        "solution",
    )
    assert "First 20 rows" in html and "all valid" in html and "17+1" in html and "25+1" not in html
    assert '<option value="level"' in html and not Taskset.objects.exists()


def test_page_waits_for_the_preview_and_then_continues_by_itself(alice_client, project):
    alice_client.post(
        reverse("taskset-imports", args=["lab"]),
        {"file": SimpleUploadedFile("a.jsonl", lines(*ROWS))},
    )
    one = TasksetImport.objects.get()
    now = reverse("taskset-import-now", args=[one.pk])
    assert one.needs_preview and "HX-Redirect" not in alice_client.get(now)
    assert (
        b"You can check columns and rows"
        in alice_client.get(reverse("taskset-import", args=[one.pk])).content
    )
    previewed(one)
    assert alice_client.get(now)["HX-Redirect"] == reverse("taskset-import", args=[one.pk])


def test_bad_rows_are_shown_with_their_reasons(send, page):
    html = page("taskset-import", send(lines(*ROWS[:2], b"oops", {"solution": 1})).pk)
    assert (
        "2 invalid" in html
        and "Expecting value" in html
        and "no column &#x27;question&#x27;" in html
    )


def test_known_layout_is_recognized_with_ignored_columns_and_imported(send, page, choose):
    rows = [
        {"question": f"{n}+1?", "answer": f"So it is.\n#### {n + 1}", "id": n} for n in range(3)
    ]
    one = send(json.dumps(rows).encode(), "gsm.json")
    html = page("taskset-import", one.pk)
    assert '<option value="gsm8k" selected>' in html
    assert '<select id="prompt"' not in html and '<select id="domain"' in html
    assert '<span class="num">id</span> (3)' in html
    choose(one, "import", slug="gsm", layout="gsm8k")
    assert import_next_file("test")
    task = Taskset.objects.get(slug="gsm").tasks.get(index=1)
    assert (task.answer, task.meta["solution"]) == ({"value": "2"}, "So it is.\n#### 2")


@pytest.mark.parametrize("name", ["a.csv", "a.parquet", "a.arrow"])
def test_other_formats_are_recognized(send, page, name):
    table = arrow.Table.from_pylist(ROWS)
    stream = io.BytesIO()
    if name == "a.parquet":
        pq.write_table(table, stream)
    elif name == "a.arrow":
        with arrow.ipc.new_file(stream, table.schema) as writer:
            writer.write_table(table)
    else:
        stream.write(
            b"question,solution,level\n"
            + b"".join(f"{n}+1,{n + 1},easy\n".encode() for n in range(30))
        )
    assert "all valid" in page("taskset-import", send(stream.getvalue(), name).pk)


def test_choices_are_saved_and_shown(send, choose):
    one = send(lines(*ROWS))
    status, html = choose(
        one,
        answer="",
        answer_key="word",
        more_meta=["level", "nowhere"],
        duplicates="drop",
        quarantine="on",
    )
    assert status == 200 and one.state == State.LOOKED_AT
    assert (one.how["answer"], one.how["answer_key"], one.how["more_meta"]) == (
        "",
        "word",
        ["level"],
    )
    assert (one.how["duplicates"], one.how["quarantine"], one.slug) == ("drop", True, "sums")
    assert "level easy" in html


@pytest.mark.parametrize(
    ("changes", "is_open"),
    [
        ({}, False),
        ({"quarantine": "on"}, False),
        ({"duplicates": "drop"}, True),
        ({"more_meta": ["level"]}, True),
        ({"answer_key": ""}, True),
    ],
)
def test_more_options_are_open_if_one_is_used_or_wrong(send, choose, changes, is_open):
    without = {"domain": "", "meta": "", "follow_ups": ""}
    html = choose(send(lines(*ROWS)), **without, **changes)[1]
    assert ('<details class="optional" open>' in html) == is_open


def test_changed_format_is_previewed_before_the_import(send, choose):
    one = send(lines(*ROWS))
    _, html = choose(one, "import", format="parquet")
    assert (
        one.state == State.LOOKED_AT
        and "The file can’t be read with these settings: not a readable Parquet" in html
    )
    choose(one, "look", format="auto")
    assert one.how["prompt"] == "question"


@pytest.mark.django_db(transaction=True)
def test_import_uses_the_choices_and_the_page_shows_its_progress(send, choose, page):
    one = send(lines(*ROWS))
    _, html = choose(one, "import", more_meta=["level"])
    assert (
        one.state == State.WAITING
        and "waiting for a worker for" in html
        and "data-refresh-ms" in html
    )
    assert "Imports in progress" in page("tasksets")
    TasksetImport.objects.filter(pk=one.pk).update(
        state=State.RUNNING, rows=1234, at=one.bytes // 2
    )
    assert "1,234 rows read, 50 %" in page("taskset-import-now", one.pk)
    TasksetImport.objects.filter(pk=one.pk).update(state=State.WAITING)
    assert import_next_file("test")
    html = page("taskset-import-now", one.pk)
    assert "done, 30 rows read" in html and "data-ended" in html and "Open sums" in html
    assert "?project=lab&amp;taskset=sums" in html and "Import tasks" in page("tasksets")
    task = Taskset.objects.get(slug="sums").tasks.get(index=4)
    assert (task.question, task.answer, task.meta) == ("4+1", {"value": 5}, {"level": "easy"})
    assert "Imports in progress" not in page("tasksets")


@pytest.mark.django_db(transaction=True)
def test_a_failed_import_lists_lines_and_reasons(send, choose, page):
    one = send(lines(*ROWS, b"oops"))
    choose(one, "import")
    import_next_file("test")
    html = page("taskset-import", one.pk)
    assert (
        "some lines are not valid tasks" in html
        and ">31<" in html
        and "oops" in html
        and "Nothing was stored" in html
    )


def test_stopped_import_deletes_its_file(send, choose, alice_client, page, folder):
    one = send(lines(*ROWS))
    choose(one, "import")
    alice_client.post(reverse("taskset-import-stop", args=[one.pk]))
    assert "stopped by alice" in page("taskset-import", one.pk) and list(folder.iterdir()) == []
    html = alice_client.post(
        reverse("taskset-import-stop", args=[one.pk]), follow=True
    ).content.decode()
    assert "it is already stopped" in html
    acts = (
        AuditEntry.objects.filter(project=one.project, name="alice")
        .order_by("pk")
        .values_list("action", "target")
    )
    assert list(acts) == [
        ("taskset import started", "taskset lab/sums"),
        ("taskset import stopped", str(one)),
    ]


def test_an_import_is_started_once(send, choose):
    one = send(lines(*ROWS))
    choose(one, "import")
    _, html = choose(one, "import", slug="other")
    assert (one.state, one.slug) == (State.WAITING, "sums") and "waiting for a worker for" in html


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (
            {"slug": "sort"},
            (
                "A taskset sort already exists, and tasksets never change; choose another name,"
                " such as sort-2"
            ),
        ),
        ({"slug": "so rt"}, "Use only letters, digits"),
        ({"slug": ""}, "Enter a name"),
        ({"prompt": ""}, "Choose a column"),
        ({"answer_key": ""}, "Enter the key that scorers read"),
        ({"format": "xml"}, "xml is not one of"),
        ({"duplicates": "perhaps"}, "perhaps is not one of"),
        ({"meta": "x" * 300}, "at most 200 characters"),
    ],
)
def test_invalid_choices_are_refused_at_their_field_and_others_are_kept(
    send, choose, taskset, wrong, words
):
    one = send(lines(*ROWS))
    status, html = choose(one, "import", **{"more_meta": ["level"], "quarantine": "on", **wrong})
    assert status == 422 and words in html and one.state == State.LOOKED_AT
    assert 'name="quarantine" checked' in html and 'value="level" checked' in html


@pytest.mark.parametrize(
    ("content", "words"), [(b"", "The file is empty"), (b"x" * 11, "the maximum on this page is")]
)
def test_a_file_that_is_empty_or_too_large_is_refused(send, monkeypatch, content, words, folder):
    monkeypatch.setattr(imports, "MAX_BYTES", 10)
    assert words in send(content) and not TasksetImport.objects.exists()


def test_project_with_too_many_files_gets_advice(send, monkeypatch):
    monkeypatch.setattr(import_files, "MAX_HELD", 1)
    send(b"{}")
    assert "import or discard one" in send(b"{}")


def test_missing_file_is_refused(alice_client, project):
    answer = alice_client.post(reverse("taskset-imports", args=["lab"]))
    assert answer.status_code == 422 and "Choose a file" in answer.content.decode()


@pytest.mark.parametrize(
    "content",
    [
        b"\0\xff\xfe",
        b"PAR1",
        b"ARROW1",
        b"\xff\xff\xff\xff\xff\xff\xff\x7f" * 9,
        b"[" * 9999,
        b"\n\n",
    ],
)
def test_unreadable_file_is_reported_as_such(send, page, content):
    html = page("taskset-import", send(content, "a.bin").pk)
    assert (
        "invalid" in html
        or "The file can’t be read with these settings" in html
        or "The file has no rows" in html
    )


def test_missing_file_of_an_import_is_reported(send, choose):
    one = send(lines(*ROWS))
    one.path.unlink()
    _, html = choose(one, format="csv")
    assert one.state == State.FAILED and "the file is not on this machine" in html


def test_names_of_files_and_columns_are_escaped(send, page):
    one = send(lines({"prompt": "a", "answer": 1, "<b>column": 2}), "<i>a.jsonl")
    html = page("taskset-import", one.pk) + page("taskset-imports", "lab")
    assert "<b>column" not in html and "<i>a" not in html and "&lt;b&gt;column" in html


def test_raters_and_strangers_cannot_open_imports(send, client, bob, carol):
    one = send(lines(*ROWS))
    for user, status in ((bob, 403), (carol, 404)):
        client.force_login(user)
        for address in (
            reverse("taskset-imports", args=["lab"]),
            reverse("taskset-import", args=[one.pk]),
        ):
            assert client.get(address).status_code == client.post(address).status_code == status
    client.force_login(bob)
    assert "my-sums" not in client.get(reverse("tasksets")).content.decode()


def test_list_of_imports_is_paged_and_needs_at_most_10_queries(
    alice_client, project, django_assert_max_num_queries
):
    TasksetImport.objects.bulk_create(
        TasksetImport(project=project, name=f"{n}.csv", bytes=1) for n in range(45)
    )
    with django_assert_max_num_queries(10):
        html = alice_client.get(reverse("taskset-imports", args=["lab"])).content.decode()
    assert html.count(".csv</a>") == 20 and "before=" in html


@pytest.mark.django_db(transaction=True)
def test_file_becomes_the_next_version_of_a_taskset(send, choose, alice_client):
    lines = b"".join(json.dumps(row).encode() + b"\n" for row in ROWS)
    first = send(lines)
    assert "New version of" not in choose(first)[1]
    choose(first, "import")
    assert import_next_file("w")
    second = send(lines.replace(b"29+1", b"29+2"))
    assert choose(second, "import", slug="sums-v2", version_of="none")[0] == 422
    status, html = choose(second, slug="sums-v2", version_of="sums")
    assert status == 200 and "<option selected>sums</option>" in html
    assert (
        "<option selected>sums</option>"
        in choose(second, slug="sums-v2", version_of="sums", format="jsonl")[1]
    )
    choose(second, "import", slug="sums-v2", version_of="sums", format="jsonl")
    assert import_next_file("w")
    second.refresh_from_db()
    assert (
        second.taskset.first.slug,
        second.taskset.version,
        second.taskset.added,
        second.taskset.removed,
    ) == ("sums", 2, 1, 1)
    old = alice_client.get(reverse("taskset", args=["lab", "sums"])).content.decode()
    assert "version 1, not the latest" in old and 'href="/tasksets/lab/sums-v2/">sums-v2</a>' in old
    new = alice_client.get(reverse("taskset", args=["lab", "sums-v2"])).content.decode()
    assert "version 2 ·" in new and 'href="/tasksets/lab/sums/">sums</a>' in new


@pytest.mark.django_db(transaction=True)
def test_file_without_changes_is_refused_as_a_version(send, choose):
    lines = b"".join(json.dumps(row).encode() + b"\n" for row in ROWS)
    choose(send(lines), "import")
    assert import_next_file("w")
    again = send(lines)
    choose(again, "import", slug="again", version_of="sums")
    assert import_next_file("w")
    again.refresh_from_db()
    assert (again.state, again.reason) == (
        State.FAILED,
        "nothing has changed: same tasks in the same order as 'sums'",
    )


SHORT = "- operator: prompt_length\n  options: {max_length: 3}\n"


def test_operators_are_previewed_and_their_removed_rows_listed(send, choose, page):
    one = send(lines(*ROWS))
    assert (
        "10 removed by operators" in choose(one, operators=SHORT)[1]
        and one.how["operators"] == SHORT
    )
    choose(one, "import", operators=SHORT)
    assert import_next_file("worker")
    made = Taskset.objects.get(slug="sums")
    assert (made.size, made.left_out) == (10, 20)
    html = page("taskset", "lab", "sums")
    assert (
        "20 removed by operators" in html
        and "prompt_length: the prompt has 4 characters, more than 3" in html
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- operator: lenght", "0.operator: no operator"),
        ("length", "must be a list"),
        ("- {", "is not valid YAML"),
    ],
)
def test_invalid_operators_are_refused_and_start_no_import(send, choose, text, said):
    one = send(lines(*ROWS))
    status, html = choose(one, "import", operators=text)
    assert status == 422 and said in html and text in html and one.state == State.LOOKED_AT
