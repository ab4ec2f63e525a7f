"""Several tasksets as one."""

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


def test_each_part_is_spread_over_the_whole_and_keeps_its_domain_or_gets_its_name(parts, project):
    call_command("taskset", "join", "both", "maths", "sums", project=project.slug)
    tasks = list(Taskset.objects.get(slug="both").tasks.order_by("index"))
    assert [task.domain for task in tasks] == ["sums", "math", "sums"] * 4
    assert tasks[1].answer == parts[0].tasks.get(index=0).answer


def test_pictures_stay_in_sight(project):
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
def test_what_cannot_be_joined_is_named(parts, project, said, told):
    with pytest.raises(CommandError, match=told):
        call_command("taskset", "join", *said, project=project.slug)
