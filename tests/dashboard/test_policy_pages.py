"""The pages of models: the source, the licence and the files of each."""

import pytest
from django.urls import reverse

from apps.policies.models import Policy
from workers.policies.bringing_in import ModelRequest, bring_in
from workers.policies.tiny import build_tiny

pytestmark = pytest.mark.django_db


@pytest.fixture
def real(policy, tmp_path):
    """Return the policy, with a real folder that contains a licence."""
    build_tiny(tmp_path / "source")
    (tmp_path / "source" / "LICENSE").write_text("Do what you like <b>.")
    manifest, _ = bring_in(ModelRequest(str(tmp_path / "source")), tmp_path / "sealed")
    told = {"folder": str(tmp_path / "sealed"), "fingerprint": manifest.fingerprint}
    told |= {"source": "/home/somebody/models/tiny.gguf", "licence": "Whatever-1.0"}
    Policy.objects.filter(pk=policy.pk).update(**told)
    policy.refresh_from_db()
    return policy


def page_of(client, user, policy) -> str:
    client.force_login(user)
    answer = client.get(reverse("policy", args=[policy.project.slug, policy.slug]))
    assert answer.status_code == 200
    return answer.content.decode()


def test_model_page_shows_source_licence_and_files(client, alice, real, run):
    html = page_of(client, alice, real)
    for words in ("tiny.gguf", "Whatever-1.0", "Do what you like &lt;b&gt;.", "model.safetensors"):
        assert words in html, words
    for words in (real.fingerprint, "F32", "add_generation_prompt", run.slug):
        assert words in html, words
    assert "/home/somebody" not in html


def test_model_page_says_that_folder_or_licence_is_missing(client, alice, policy):
    Policy.objects.filter(pk=policy.pk).update(folder="/nowhere", licence="")
    html = page_of(client, alice, policy)
    assert "can’t read the model’s folder" in html and "not stated" in html


def test_model_list_contains_only_models_of_ones_projects(client, alice, carol, real):
    client.force_login(alice)
    html = client.get(reverse("policies")).content.decode()
    assert real.slug in html and "Whatever-1.0" in html and "/home/somebody" not in html
    client.force_login(carol)
    assert "no-models" in client.get(reverse("policies")).content.decode()


def test_page_of_weight_version_zero_links_to_its_model(client, seeded):
    client.force_login(seeded.alice)
    address = reverse("run-weight", args=["lab", seeded.run.slug, 0])
    policy = seeded.run.policy
    assert reverse("policy", args=["lab", policy.slug]) in client.get(address).content.decode()
