"""Two imports of one file at the same time store each lesson once."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, transaction

from apps.feedback.importing import Destination, Imported, LessonFile, import_lessons
from apps.feedback.models import Demonstration
from tests.locks import somebody_waits

pytestmark = pytest.mark.django_db(transaction=True)


def test_import_of_the_same_file_waits_and_finds_everything_stored(project, tmp_path, eventually):
    path = tmp_path / "shown.jsonl"
    path.write_text(
        "".join(json.dumps({"prompt": f"q{n}", "answer": "a"}) + "\n" for n in range(3))
    )

    def again() -> Imported:
        try:
            return import_lessons(LessonFile(path, "demonstrations"), Destination(project, "f"))
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        with transaction.atomic():
            first = import_lessons(LessonFile(path, "demonstrations"), Destination(project, "f"))
            second = pool.submit(again)
            eventually(somebody_waits)
        assert (first.new, second.result().new, second.result().existing) == (3, 0, 3)
    assert Demonstration.objects.count() == 3
