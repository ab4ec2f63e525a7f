"""A run whose LoRA targets are missing from its policy is refused on creation, and the error lists
the existing layers.
"""

import pytest
from django.urls import reverse

from apps.policies.models import Policy
from apps.runs.config import ConfigError
from apps.runs.models import Run
from apps.runs.parsing import to_yaml
from workers.policies.tiny import build_tiny

pytestmark = pytest.mark.django_db
WRONG = {"rank": 2, "target_modules": ["q_proj", "c_attn"]}
WORDS = (
    "policy 'tiny' has no layer 'c_attn'; it has down_proj, gate_proj, k_proj, o_proj, q_proj,"
    " up_proj, v_proj"
)


@pytest.fixture
def real(policy, tmp_path) -> Policy:
    build_tiny(tmp_path / "policy")
    Policy.objects.filter(pk=policy.pk).update(folder=str(tmp_path / "policy"))
    return policy


def test_lora_target_missing_from_the_policy_is_refused_on_create_and_change(
    real, project, plan, new_run
):
    with pytest.raises(ConfigError) as refused:
        new_run(lora=WRONG)
    assert refused.value.problems == {"lora.target_modules": WORDS}
    assert not Run.objects.exists()
    run = Run.create(project=project, slug="later", title="Later", plan=plan(lora={"rank": 2}))
    with pytest.raises(ConfigError) as refused:
        run.change_config(None, lora={"target_modules": ["c_attn"]})
    assert "lora.target_modules" in refused.value.problems


def test_new_run_form_shows_a_missing_lora_target_at_its_field(real, taskset, client, alice, plan):
    client.force_login(alice)
    sent = {"project": real.project.slug, "yaml": to_yaml(plan(lora=WRONG)), "yaml_before": ""}
    page = client.post(reverse("run-new-check"), {**sent, "slug": "adapted"})
    assert page.status_code == 200 and "has no layer &#x27;c_attn&#x27;" in page.content.decode()
