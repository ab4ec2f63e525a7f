"""A run and its project may both have names as long as their fields allow."""

import pytest

from apps.accounts.models import AuditEntry, Project
from apps.runs.models import Run

pytestmark = pytest.mark.django_db


def test_run_with_the_longest_name_is_created_in_a_project_with_the_longest_name(run, project):
    Project.objects.filter(pk=project.pk).update(slug="p" * 50)
    project.refresh_from_db()
    made = Run.create(project=project, slug="r" * 50, title="Long", plan=run.settings)
    made.start()
    made.weight_versions.create(version=10_000_000, state="published", folder="/nowhere").pin(None)
    assert AuditEntry.objects.filter(target__contains=made.slug).exists()
