"""Models in the browser: added, shown during the import, retried, previewed, deleted."""

import pytest
from django.urls import reverse

from apps.accounts.models import AuditEntry, Membership
from apps.policies.models import Policy, PolicyImport, PolicyRemoval, TemplatePreview
from apps.policies.named_models import CATALOGUE

pytestmark = pytest.mark.django_db
State = PolicyImport.State


@pytest.fixture(autouse=True)
def folders(settings, tmp_path):
    settings.IMPORTS_ROOT = tmp_path / "imports"
    settings.WEIGHTS_ROOT = tmp_path / "weights"


@pytest.fixture
def alice_client(client, alice):
    client.force_login(alice)
    return client


@pytest.fixture
def add(alice_client, project):
    """Post the form; return the status and the page."""

    def post(**said: str) -> tuple[int, str]:
        answer = alice_client.post(
            reverse("model-add"), {"project": project.slug, "kind": "hub", **said}
        )
        return answer.status_code, answer.content.decode()

    return post


@pytest.fixture
def failed(project, alice):
    made = PolicyImport.objects.create(
        project=project, by=alice, kind="hub", source="owner/name", slug="mine", title="Mine"
    )
    PolicyImport.objects.filter(pk=made.pk).update(state=State.FAILED, reason="has no template")
    made.refresh_from_db()
    return made


@pytest.mark.parametrize("kind", ["hub", "named"])
def test_form_creates_an_import_that_the_models_page_lists(alice_client, add, kind):
    source = {"hub": "owner/My.Model", "named": next(iter(CATALOGUE))}[kind]
    status, _ = add(kind=kind, **{kind: source}, template="chatml")
    made = PolicyImport.objects.get()
    assert status == 302 and (made.kind, made.source, made.template) == (kind, source, "chatml")
    assert made.state == State.WAITING and made.slug in ("my-model", source)
    listed = alice_client.get(reverse("policies")).content.decode()
    assert reverse("model-import", args=[made.pk]) in listed
    assert AuditEntry.objects.filter(action="model import started").exists()


def test_errors_are_shown_at_their_fields_and_input_is_kept(add):
    template = "{{ messages }} <b>"
    status, html = add(hub="no hub id", title="My title", template="own", template_text=template)
    assert status == 422 and not PolicyImport.objects.exists()
    assert "owner/name, such as" in html and 'value="no hub id"' in html
    assert 'value="My title"' in html and "{{ messages }} &lt;b&gt;" in html


def test_a_model_on_the_server_is_offered_and_added(alice_client, add, settings, tmp_path):
    settings.MODELS_ROOT = tmp_path / "models"
    (settings.MODELS_ROOT / "lab").mkdir(parents=True)
    (settings.MODELS_ROOT / "lab" / "small.gguf").write_bytes(b"GGUF")
    assert 'value="lab/small.gguf"' in alice_client.get(reverse("model-add")).content.decode()
    assert add(kind="server", server="lab/small.gguf")[0] == 302
    assert PolicyImport.objects.get().slug == "small"
    status, html = add(kind="server", server="../weights", slug="other")
    assert status == 422 and "a part of dots only" in html


def test_project_without_membership_cannot_be_chosen(add):
    assert add(project="elsewhere", hub="owner/name")[0] == 422
    assert not PolicyImport.objects.exists()


def test_researcher_can_add_models_and_rater_cannot(client, bob, carol, project):
    Membership.objects.create(user=carol, project=project, role="researcher")
    client.force_login(carol)
    said = {"project": project.slug, "kind": "hub", "hub": "owner/name"}
    assert client.post(reverse("model-add"), said).status_code == 302
    client.force_login(bob)
    assert client.post(reverse("model-add"), said).status_code == 403
    assert "model-add" not in client.get(reverse("policies")).content.decode()


def test_failed_import_shows_its_reason_and_is_retried_with_a_template(alice_client, failed):
    page = reverse("model-import", args=[failed.pk])
    html = alice_client.get(page).content.decode()
    assert "has no template" in html and 'value="mine"' in html
    answer = alice_client.post(page, {"slug": "mine", "template": "own", "template_text": ""})
    assert answer.status_code == 422 and "Write the chat template" in answer.content.decode()
    said = {"slug": "other", "template": "own", "template_text": "{{ messages }}"}
    assert alice_client.post(page, said).status_code == 302
    failed.refresh_from_db()
    assert (failed.state, failed.slug, failed.reason) == (State.WAITING, "other", "")
    assert failed.template_text == "{{ messages }}"


def test_import_progress_is_shown_and_it_can_be_stopped(alice_client, failed):
    PolicyImport.objects.update(state=State.RUNNING, stage="copying", done=1, total=4, reason="")
    part = alice_client.get(reverse("model-import-now", args=[failed.pk]))
    assert b"copying" in part.content and "HX-Redirect" not in part.headers
    alice_client.post(reverse("model-import-stop", args=[failed.pk]))
    failed.refresh_from_db()
    assert (failed.state, failed.reason) == (State.STOPPED, "stopped by alice")
    ended = alice_client.get(reverse("model-import-now", args=[failed.pk]))
    assert ended.headers["HX-Redirect"] == reverse("model-import", args=[failed.pk])
    assert (
        reverse("model-import", args=[failed.pk])
        not in alice_client.get(reverse("policies")).content.decode()
    )


def test_interrupted_upload_shows_what_arrived(alice_client, failed):
    files = {"a.gguf": 10}
    PolicyImport.objects.update(state=State.UPLOADING, kind="upload", reason="", files=files)
    failed.refresh_from_db()
    failed.upload_folder.mkdir(parents=True)
    (failed.upload_folder / "a.gguf").write_bytes(b"1234")
    html = alice_client.get(reverse("model-import", args=[failed.pk])).content.decode()
    assert "data-resume-url" in html and "a.gguf" in html and ">4 B<" in html.replace("\xa0", " ")


# -- one model


def test_unused_model_is_deleted_and_a_worker_removes_its_files(alice_client, policy, project):
    page = reverse("policy", args=[project.slug, policy.slug])
    assert "delete-model" in alice_client.get(page).content.decode()
    answer = alice_client.post(reverse("policy-delete", args=[project.slug, policy.slug]))
    assert answer.headers["Location"] == reverse("policies")
    assert not Policy.objects.exists() and PolicyRemoval.objects.get().folder == policy.folder
    assert b"A worker is removing its files" in alice_client.get(reverse("policies")).content


def test_model_in_use_shows_its_run_and_is_kept(alice_client, policy, project, run):
    address = reverse("policy-delete", args=[project.slug, policy.slug])
    html = alice_client.post(address, follow=True).content.decode()
    assert f"the run {run.slug} uses it" in html and "delete-model" not in html
    assert Policy.objects.exists()


def test_reference_model_of_a_run_is_in_use(alice_client, policy, project, run):
    teacher = Policy.objects.get(pk=policy.pk)
    teacher.pk = None
    teacher.slug = "teacher"
    teacher.save()
    run.config["algorithm"] = {"reference": {"kind": "policy", "policy": "teacher"}}
    run.save(update_fields=["config"])
    html = alice_client.get(reverse("policy", args=[project.slug, "teacher"])).content.decode()
    assert "uses it as reference model" in html and "in-use" in html


def test_preview_is_requested_and_shown_with_marked_control_tokens(alice_client, policy, project):
    page = reverse("policy", args=[project.slug, policy.slug])
    ask = reverse("policy-preview", args=[project.slug, policy.slug])
    said = {"user": "Hi\r\n<b>", "reply": "Yo", "template": "plain"}
    assert alice_client.post(ask, said).status_code == 302
    made = TemplatePreview.objects.get()
    assert [message["content"] for message in made.messages] == ["Hi\n<b>", "Yo"]
    assert "data-refresh-ms" in alice_client.get(page).content.decode()
    pieces = [["<|user|>", True], ["Hi <b>", False]]
    TemplatePreview.objects.update(state="done", pieces=pieces, tokens=3)
    html = alice_client.get(page).content.decode()
    assert "<mark>&lt;|user|&gt;</mark>Hi &lt;b&gt;" in html and "\nYo</textarea>" in html
    alice_client.post(ask, said)
    assert TemplatePreview.objects.count() == 1


def test_conversation_without_a_user_message_is_refused_and_kept(alice_client, policy, project):
    ask = reverse("policy-preview", args=[project.slug, policy.slug])
    answer = alice_client.post(ask, {"user_again": "And then?"})
    assert answer.status_code == 422 and "And then?" in answer.content.decode()
    assert "Write what the user says" in answer.content.decode()
    assert not TemplatePreview.objects.exists()


def test_preview_is_visible_only_to_its_author(client, policy, project, alice, carol):
    Membership.objects.create(user=carol, project=project, role="researcher")
    message = [{"role": "user", "content": "my secret"}]
    TemplatePreview.objects.create(policy=policy, by=alice, messages=message)
    client.force_login(carol)
    page = reverse("policy", args=[project.slug, policy.slug])
    assert "my secret" not in client.get(page).content.decode()


def test_model_field_of_a_new_run_links_to_adding_a_model(client, seeded):
    client.force_login(seeded.alice)
    html = client.get(reverse("run-new")).content.decode()
    assert f"{reverse('model-add')}?project=" in html


def test_number_of_queries_does_not_grow_with_models(
    alice_client, policy, project, django_assert_max_num_queries
):
    copies = []
    for number in range(30):
        copy = Policy.objects.get(pk=policy.pk)
        copy.pk = None
        copy.slug = f"copy-{number}"
        copies.append(copy)
    Policy.objects.bulk_create(copies)
    for number in range(15):
        PolicyImport.objects.create(
            project=project, kind="hub", source="a/b", slug=f"more-{number}", title="More"
        )
    with django_assert_max_num_queries(12):
        assert alice_client.get(reverse("policies")).status_code == 200
