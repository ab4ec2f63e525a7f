"""A taskset that is exported and imported again has the same tasks and the same digest."""

import json

import pyarrow.parquet as pq
import pytest

from apps.tasksets.exporting import TYPES, export_pieces, read_stored_rows
from apps.tasksets.importing import generate, import_file
from apps.tasksets.models import Taskset
from apps.tasksets.rows import TaskRow, user_message
from apps.tasksets.storing import Origin, store_taskset
from tests.tasksets.test_messages import HOW_MANY, data_url, png

pytestmark = pytest.mark.django_db
DIFFERENT = [
    TaskRow(user_message("plain"), {"value": "4"}),
    TaskRow(
        user_message('[{"role": "user", "content": "looks like messages"}]'),
        {"value": '{"looks": "like an object"}'},
    ),
    TaskRow(
        [{"role": "system", "content": 'be, "brief"\nplease'}, *user_message("ü 数 ' ; \t | =1+1")],
        {"value": [1, 2.5, None, True]},
    ),
    TaskRow(
        user_message("later"),
        {"a": {"b": 1}},
        {"grade": 4, "": "no name"},
        ["and?", "so\n?"],
        domain="math",
    ),
    TaskRow(user_message("no answer"), {}, {"grade": None}),
    TaskRow(
        [*user_message("a"), {"role": "assistant", "content": "b"}, *user_message("c")],
        {"value": 1e-9, "n": 2**63},
    ),
]


def again(taskset: Taskset, format: str, folder) -> Taskset:
    path = folder / f"a.{format}"
    path.write_bytes(b"".join(export_pieces(taskset, format)))
    return import_file(path, Origin(taskset.project, f"again-{format}", "Again", path.name))


@pytest.mark.parametrize("format", TYPES)
def test_exported_tasks_of_every_kind_import_unchanged(project, tmp_path, format):
    taskset = store_taskset(Origin(project, "all", "All", "test"), DIFFERENT)
    assert again(taskset, format, tmp_path).digest == taskset.digest


@pytest.mark.parametrize("format", TYPES)
@pytest.mark.parametrize("name", ["tone_dialogue", "katas", "k12"])
def test_exported_generated_tasksets_import_unchanged(project, tmp_path, format, name):
    taskset = generate(project, name, name, 12, seed=3)
    assert again(taskset, format, tmp_path).digest == taskset.digest


@pytest.mark.parametrize("format", TYPES)
def test_exported_pictures_import_with_their_tasks(project, tmp_path, format):
    line = {
        "prompt": [
            {
                "role": "user",
                "content": [{"type": "image_url", "image_url": {"url": data_url(png())}}, HOW_MANY],
            }
        ],
        "answer": 3,
    }
    (tmp_path / "seen.jsonl").write_text(json.dumps(line))
    taskset = import_file(tmp_path / "seen.jsonl", Origin(project, "seen", "Seen", "seen.jsonl"))
    back = again(taskset, format, tmp_path)
    assert back.digest == taskset.digest and back.shows_pictures


def test_exported_taskset_larger_than_a_batch_keeps_its_order(project, tmp_path):
    taskset = generate(project, "many", "sort", 1_203, seed=1)
    assert [len(rows) for rows in read_stored_rows(taskset)] == [500, 500, 203]
    seen = []
    assert len(
        b"".join(export_pieces(taskset, "jsonl", seen.append)).splitlines()
    ) == 1_203 and seen == [
        500,
        1_000,
        1_203,
    ]


def test_parquet_export_stores_prompts_as_message_lists(project, tmp_path):
    taskset = store_taskset(Origin(project, "all", "All", "test"), DIFFERENT)
    again(taskset, "parquet", tmp_path)
    table = pq.read_table(tmp_path / "a.parquet")
    assert table["prompt"][0].as_py() == user_message("plain") and table["follow_ups"][
        3
    ].as_py() == ["and?", "so\n?"]


def test_empty_taskset_exports_a_file_without_rows(project):
    taskset = Taskset.objects.create(
        project=project, slug="asked", title="", source="asked by callers", grows=True
    )
    assert b"".join(export_pieces(taskset, "jsonl")) == b""
    assert b"".join(export_pieces(taskset, "csv")).splitlines() == [
        b"prompt.json,answer.json,meta.json,follow_ups.json,domain.json"
    ]
    assert b"".join(export_pieces(taskset, "parquet")).startswith(b"PAR1")
