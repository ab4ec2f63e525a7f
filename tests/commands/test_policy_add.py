"""`manage.py policy add`: the kinds of models, their names, and the record of their origin."""

import io

import pytest
from django.core.management import CommandError, call_command

from apps.policies import tensor_file
from apps.policies.models import Policy
from apps.policies.registering import register_policy
from apps.runs.promoting import promoted
from tests.policies.gguf_files import write_gguf
from workers.policies.bringing_in import ModelRequest, bring_in
from workers.policies.tiny import build_tiny

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("forked_modules")]


def said(*arguments: object) -> str:
    out = io.StringIO()
    call_command("policy", "add", *map(str, arguments), stdout=out)
    return out.getvalue()


def refusal(*arguments: object) -> str:
    with pytest.raises(CommandError) as caught:
        said(*arguments)
    return str(caught.value)


@pytest.fixture(autouse=True)
def weights(tmp_path, settings):
    settings.WEIGHTS_ROOT = tmp_path / "weights"
    return settings.WEIGHTS_ROOT


def test_gguf_file_from_the_working_folder_is_added(project, tmp_path, monkeypatch, capfd):
    write_gguf(tmp_path / "tiny.gguf", "qwen2", "Q8_0")
    (tmp_path / "own.jinja").write_text(
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}<|assistant|>"
    )
    monkeypatch.chdir(tmp_path)
    made = said("tiny.gguf", "--slug", "tiny", "--chat-template", "own.jinja")
    assert "policy tiny: Qwen2ForCausalLM, 78,912 parameters, apache-2.0" in made
    policy = Policy.objects.get(slug="tiny")
    assert (policy.source, policy.licence) == ("tiny.gguf", "apache-2.0")
    printed = capfd.readouterr().err
    assert "    <|user|>What is 2 + 3?<|end|>" in printed and "vocab_size" not in printed


def test_licence_is_read_from_the_model_card(project, tmp_path):
    build_tiny(tmp_path / "mine")
    (tmp_path / "mine" / "README.md").write_text("---\ntags: [x]\nlicense: mit\n---\n# Mine\n")
    assert "parameters, mit" in said(tmp_path / "mine", "--slug", "mine")


def test_a_refusal_leaves_neither_policy_nor_files(project, tmp_path, weights, capfd):
    (tmp_path / "bad.gguf").write_bytes(b"GGUF" + bytes(100))
    assert "was not added" in refusal(tmp_path / "bad.gguf", "--slug", "bad")
    assert "bad.gguf: is GGUF version 0; supported: 2 and 3" in capfd.readouterr().err
    assert not Policy.objects.exists() and not list((weights / "policies").iterdir())


def test_unknown_model_needs_a_slug(project, tmp_path):
    build_tiny(tmp_path / "mine")
    assert "--slug" in refusal(tmp_path / "mine")
    assert "--slug" in refusal("owner/name")


def test_unknown_model_name_is_refused_with_the_known_names(project):
    assert "smolm2: must be a folder" in refusal("smolm2") and "or smollm2" in refusal("smolm2")


@pytest.mark.parametrize("slug", ["a b", "../x", "x" * 51])
def test_impossible_slug_is_refused_before_the_model_is_read(project, tmp_path, weights, slug):
    build_tiny(tmp_path / "mine")
    assert "it must be 1 to 50 letters" in refusal(tmp_path / "mine", "--slug", slug)
    assert not weights.exists()


def test_newly_sealed_weights_are_read_once(project, tmp_path, monkeypatch):
    build_tiny(tmp_path / "mine")
    inspected = []
    inspect = tensor_file.inspect

    def counted(path, *more):
        inspected.append(path.name)
        return inspect(path, *more)

    monkeypatch.setattr(tensor_file, "inspect", counted)
    folder = tmp_path / "sealed"
    manifest, _ = bring_in(ModelRequest(str(tmp_path / "mine")), folder)
    register_policy(project, "mine", folder, "a test", sealed=manifest)
    assert inspected == ["model.safetensors"]


def test_version_promoted_to_a_policy_keeps_the_licence(run, tmp_path):
    build_tiny(tmp_path / "v1")
    Policy.objects.filter(pk=run.policy_id).update(licence="mit")
    run.policy.refresh_from_db()
    version = run.weight_versions.create(version=1, step=1, folder=str(tmp_path / "v1"))
    assert promoted(version, slug="grown").licence == "mit"
