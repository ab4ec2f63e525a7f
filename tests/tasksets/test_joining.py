"""Joining several tasksets into one."""

import pytest
from django.core.management import CommandError, call_command

from apps.tasksets.importing import generate
from apps.tasksets.models import Taskset

pytestmark = pytest.mark.django_db


@pytest.fixture
def parts(project):
    return [
        generate(project, slug, name, size, 0)
        for slug, name, size in (("maths", "math", 4), ("sums", "sort", 8))
    ]


def test_joined_parts_are_interleaved_and_tasks_without_domain_get_the_part_name(parts, project):
    call_command("taskset", "join", "both", "maths", "sums", project=project.slug)
    tasks = list(Taskset.objects.get(slug="both").tasks.order_by("index"))
    assert [task.domain for task in tasks] == ["sums", "math", "sums"] * 4
    assert tasks[1].answer == parts[0].tasks.get(index=0).answer


def test_joined_taskset_with_pictures_is_marked_as_showing_pictures(project):
    generate(project, "seen", "shapes", 3, 0)
    generate(project, "sums", "sort", 3, 0)
    call_command("taskset", "join", "both", "seen", "sums", project=project.slug)
    assert Taskset.objects.get(slug="both").shows_pictures


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (("both", "maths", "nope"), "no taskset 'nope'"),
        (("maths", "maths", "sums"), "already exists"),
    ],
)
def test_join_error_names_what_cannot_be_joined(parts, project, said, told):
    with pytest.raises(CommandError, match=told):
        call_command("taskset", "join", *said, project=project.slug)
