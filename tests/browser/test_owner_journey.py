"""An owner assigns work to a group, archives a project and deletes a run, without a terminal."""

import os
import subprocess
import sys

import pytest
from django.conf import settings
from django.db import connection

from apps.accounts.models import Membership, RaterGroup, User
from apps.rollouts.models import Group
from apps.runs.models import Run, RunRemoval
from tests.accounts.oidc_provider import CLIENT, SECRET, serving
from tests.browser.conftest import PHONE, ROOT, _url_of, _wait_until_served
from tests.browser.test_axe import findings
from tests.keeping import Kept
from tests.ports import kept_port
from workers.run_removal.removing import remove_next

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_owner_creates_a_group_and_deletes_a_run_by_its_name(
    visit, kept_run: Kept, transactional_db, tmp_path, settings
):
    settings.WEIGHTS_ROOT = tmp_path / "weights"
    kept_run.put_back()
    run = Run.objects.get()
    run.stop()
    Group.objects.close_ended()
    owner = visit(User.objects.get(username="alice"))
    page = owner.open("/projects/lab/")
    page.get_by_label("New group").fill("experts")
    page.get_by_role("button", name="Create group").click()
    page.get_by_text("Group experts created. Choose its members.").wait_for()
    page.get_by_role("group", name="Members of experts").get_by_label("bob").check()
    page.get_by_role("button", name="Save group experts").click()
    page.get_by_text("Group experts saved.").wait_for()
    assert [one.username for one in RaterGroup.objects.get().members.all()] == ["bob"]
    assert findings(page) == []
    owner.picture("project")

    page = owner.open("/runs/")
    page.get_by_label(f"Select {run.slug}").check()
    page.get_by_role("button", name="Delete…").click()
    page.get_by_role("heading", name=f"Delete {run.slug}?").wait_for()
    assert page.get_by_text("the model that it started from, and the audit log").is_visible()
    page.get_by_label(f"Type {run.slug} to confirm").fill("something else")
    page.get_by_role("button", name="Delete run").click()
    page.get_by_text("Nothing was deleted. Type the run’s name").wait_for()
    assert findings(page) == []
    owner.picture("run-delete")
    page.get_by_label(f"Type {run.slug} to confirm").fill(run.slug)
    page.get_by_role("button", name="Delete run").click()
    page.wait_for_url("**/run-deletions/*/")
    assert findings(page) == []
    owner.picture("run-deletion")
    assert remove_next("worker")
    page.get_by_test_id("state").get_by_text("deleted").wait_for()
    assert RunRemoval.objects.get().state == "done" and not Run.objects.exists()

    page = owner.open("/projects/lab/")
    page.get_by_role("button", name="Archive project").click()
    page.get_by_text("is archived. You can restore it here.").wait_for()
    page.get_by_role("button", name="Restore project").click()
    page.get_by_text("is restored.").wait_for()


@pytest.fixture
def site_with_provider(transactional_db):
    """Start a web process with sign-in at a provider on another port; yield both addresses."""
    keeper, port = kept_port()
    with serving() as provider:
        environment = {
            **os.environ,
            "DATABASE_URL": _url_of(connection.settings_dict),
            "REDIS_URL": settings.REDIS_URL,
            "RFTWEB_VAR": str(settings.VAR),
            "RFTWEB_DEBUG": "0",
            "RFTWEB_OIDC_ISSUER": provider.address,
            "RFTWEB_OIDC_CLIENT_ID": CLIENT,
            "RFTWEB_OIDC_CLIENT_SECRET": SECRET,
            "RFTWEB_OIDC_NAME": "the house",
            "RFTWEB_OIDC_ROLE": "lab:rater",
        }
        command = [sys.executable, "-m", "uvicorn", "rftweb.asgi:application", "--port", str(port)]
        process = subprocess.Popen(
            [*command, "--lifespan", "off", "--no-access-log"], cwd=ROOT, env=environment
        )
        try:
            _wait_until_served(port, process)
            yield f"http://127.0.0.1:{port}", provider
        finally:
            process.terminate()
            process.wait(timeout=60)
            keeper.close()


def test_colleague_signs_in_at_the_provider_and_opens_the_rating_page(
    visit, project, site_with_provider
):
    """The browser follows the form to another origin only if the page's policy names it."""
    site, provider = site_with_provider
    provider.person = {"sub": "1", "preferred_username": "erin"}
    colleague = visit(None, viewport=PHONE)
    colleague.site = site
    page = colleague.open("/accounts/login/")
    assert findings(page) == []
    colleague.picture("login")
    page.get_by_role("button", name="Continue with the house").click()
    page.wait_for_url("**/rate/")
    assert Membership.objects.get(user__username="erin").role == "rater"
    assert colleague.complaints == []
