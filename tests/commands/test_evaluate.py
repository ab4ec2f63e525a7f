"""`manage.py evaluate`: one version or all kept ones, each evaluated once."""

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from apps.runs.models import Run, WeightVersion

pytestmark = pytest.mark.django_db


@pytest.fixture
def published(run) -> Run:
    version = WeightVersion.objects.create(
        run=run, version=1, step=1, folder="/weights/1", fingerprint="1"
    )
    version.verify()
    version.publish()
    return run


def told(*arguments: str, **options: object) -> str:
    out = StringIO()
    call_command(
        "evaluate", *arguments, taskset=options.pop("taskset", "sort"), stdout=out, **options
    )
    return out.getvalue()


def test_newest_version_is_evaluated_only_once(published):
    assert "version 1: run-0-v1-sort: 4 tasks, 2 replies each" in told("run-0", samples=2)
    assert "already exists, running" in told("run-0", samples=2)
    assert Run.objects.get(is_evaluation=True).settings.group_size == 2


def test_all_kept_versions_are_evaluated(published):
    assert told("run-0", all=True, scorer=["sort"]).count("4 tasks, 4 replies each") == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"weights": 7}, "has no version 7"),
        ({"samples": 0}, "--samples"),
        ({"taskset": "none"}, "no taskset 'none'"),
    ],
)
def test_invalid_evaluation_is_refused_by_option(published, options, words):
    with pytest.raises(CommandError, match=words):
        told("run-0", **options)
