"""A new run that needs more memory than the trainer's machine has: the page shows how much."""

import pytest
from django.urls import reverse

from apps.policies.models import Policy
from apps.runs.models import Worker

GB = 2**30


@pytest.mark.parametrize(
    ("device", "metrics", "place"),
    [
        ("cpu", {"machine_bytes": 24 * GB}, "machine"),
        ("NVIDIA H100", {"gpu_total_bytes": 80 * GB}, "GPU"),
    ],
)
def test_memory_warning_shows_needed_and_available_memory(client, seeded, device, metrics, place):
    role = Worker.Role.TRAINER
    Worker.objects.create(
        key="trainer@here", role=role, host="here", pid=1, device=device, metrics=metrics
    )
    client.force_login(seeded.alice)
    words = f"of the trainer’s {place}"
    assert words not in client.get(reverse("run-new")).content.decode()
    Policy.objects.filter(pk=seeded.run.policy_id).update(parameters=70_000_000_000)
    html = client.get(reverse("run-new")).content.decode()
    assert words in html and 'class="warn"' in html
