"""The page that imports lessons: it previews them, reports errors by line and field, and stores all
or nothing.
"""

import io
import json
import zipfile

import pyarrow as arrow
import pyarrow.parquet as pq
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from apps.accounts.models import AuditEntry
from apps.dashboard.views import lessons
from apps.feedback.models import Demonstration, Preference

PAIR = {
    "chosen": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}],
    "rejected": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Go."}],
}


@pytest.fixture
def send(client, alice, project):
    client.force_login(alice)

    def post(
        content: bytes,
        act: str = "store",
        kind: str = "preferences",
        name: str = "pairs.jsonl",
        **fields: str,
    ) -> tuple[int, str]:
        data = {"kind": kind, "act": act, "file": SimpleUploadedFile(name, content), **fields}
        answer = client.post(reverse("lessons-import", args=["lab"]), data)
        return answer.status_code, answer.content.decode()

    return post


def lines(*rows: object) -> bytes:
    return b"".join(
        (row if isinstance(row, bytes) else json.dumps(row).encode()) + b"\n" for row in rows
    )


def test_preview_shows_the_lessons_and_stores_nothing(send):
    status, html = send(lines(PAIR), act="preview")
    assert (status, "1 lines" in html, "Hello." in html) == (200, True, True)
    assert not Preference.objects.exists()


def test_preview_shows_the_layout_and_the_ignored_columns(send):
    row = {"instruction": "Greet.", "output": "Hello.", "source": "x", "system": "Be kind."}
    _, html = send(json.dumps([row]).encode(), act="preview", kind="demonstrations", name="a.json")
    assert "<strong>Alpaca: instruction, input and output</strong>" in html
    assert '<span class="num">source</span> (1)' in html and ">system<" not in html


def test_layout_without_the_chosen_kind_of_lessons_is_refused(send):
    status, html = send(lines(PAIR), layout="alpaca")
    assert (status, "Rows of this layout hold no preferences." in html) == (422, True)


def test_bad_lines_are_reported_with_their_field_and_nothing_is_stored(send):
    status, html = send(
        lines(
            PAIR,
            {**PAIR, "rejected": [{"role": "critic", "content": "x"}, *PAIR["rejected"]]},
            {"prompt": "a"},
        )
    )
    assert status == 422
    assert "rejected[0]: the role must be" in html and "no column &#x27;chosen&#x27;" in html
    assert not Preference.objects.exists() and not AuditEntry.objects.exists()


def test_bad_lines_are_skipped_on_request(send):
    status, html = send(lines(PAIR, {"prompt": "a"}), leave_out="on")
    assert (status, "1 stored, 0 already existed, 1 lines skipped" in html) == (200, True)
    assert Preference.objects.get().source == "pairs.jsonl"
    entry = AuditEntry.objects.get(action="lessons imported")
    assert (entry.name, entry.project.slug, entry.details) == (
        "alice",
        "lab",
        {"file": "pairs.jsonl"},
    )


def test_ten_thousand_rows_are_imported_only_once(send):
    rows = [{"prompt": f"question {n}", "response": f"answer {n}"} for n in range(10_000)]
    assert "10,000 stored, 0 already existed" in send(lines(*rows), kind="demonstrations")[1]
    assert "0 stored, 10,000 already existed" in send(lines(*rows), kind="demonstrations")[1]
    assert Demonstration.objects.count() == 10_000


def test_parquet_file_is_imported_without_mapping(send):
    stream = io.BytesIO()
    pq.write_table(
        arrow.Table.from_pylist(
            [
                PAIR,
                {
                    **PAIR,
                    "rejected": [*PAIR["rejected"][:1], {"role": "assistant", "content": "No."}],
                },
            ]
        ),
        stream,
    )
    assert "2 stored" in send(stream.getvalue(), name="pairs.parquet")[1]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{}".encode("utf-16"), "no column &#x27;chosen&#x27;"),
        (b'{"prompt": "a", "chosen": "b", "rejected": "\xff"}\n', "not UTF-8"),
        (b'{"prompt": "a\\u0000", "chosen": "b", "rejected": "c"}\n', "NUL character"),
        (
            b'{"prompt": "' + b"a" * (1 << 20) + b'", "chosen": "b", "rejected": "c"}\n',
            "longer than 1048576 bytes",
        ),
        (b"PAR1 and no more", "The file cannot be read: not a readable Parquet file"),
        (b"[1, 2]\n", "not a JSON object"),
        (b"", "The file is empty."),
    ],
    ids=["utf-16", "broken utf-8", "nul", "huge row", "cut parquet", "a list", "empty"],
)
def test_unreadable_file_is_refused_with_a_message(send, content, words):
    status, html = send(content)
    assert (status, words in html) == (422, True)
    assert not Preference.objects.exists()


def test_a_file_that_is_too_large_for_a_page_is_refused(send, monkeypatch):
    monkeypatch.setattr(lessons, "MAX_BYTES", 10)
    status, html = send(lines(PAIR))
    assert (status, "manage.py for larger files" in html) == (422, True)


def test_text_of_a_file_is_shown_and_never_run(send):
    row = {
        **PAIR,
        "chosen": [
            PAIR["chosen"][0],
            {"role": "assistant", "content": "<script>window.pwned=1</script>"},
        ],
    }
    html = send(lines(row), act="preview")[1]
    assert "<script>window.pwned" not in html and "&lt;script&gt;window.pwned" in html


def test_pages_link_to_the_import_only_for_users_who_can_import(client, alice, bob, run):
    link = reverse("lessons-import", args=["lab"])
    pages = [
        reverse("tasksets"),
        *(reverse(name, args=["lab", run.slug]) for name in ("run-people", "run-exports")),
    ]
    client.force_login(alice)
    assert all(f'href="{link}"' in client.get(page).content.decode() for page in pages)
    client.force_login(bob)
    assert link not in client.get(reverse("tasksets")).content.decode()


def test_sources_are_counted_among_the_newest_lessons_only(send, monkeypatch):
    monkeypatch.setattr(lessons, "MAX_COUNTED", 3)
    rows = [{"prompt": f"question {n}", "response": f"answer {n}"} for n in range(10)]
    _, html = send(lines(*rows), kind="demonstrations")
    assert "among the newest 3 of each type" in html and '<td class="r num">3</td>' in html


def test_one_split_of_a_zip_file_is_imported(send):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("train.jsonl", lines(PAIR))
        archive.writestr("test.jsonl", lines({**PAIR, "rejected": [*PAIR["rejected"], {}]}))
    status, html = send(packed.getvalue(), name="pairs.zip")
    assert (status, "choose a split: test, train" in html) == (422, True)
    status, html = send(packed.getvalue(), name="pairs.zip", split="train")
    assert (status, Preference.objects.get().chosen) == (200, "Hello.")
