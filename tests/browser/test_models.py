"""A model in a browser: uploaded in pieces, shown while a worker adds it, and opened."""

import pytest

from apps.policies.models import Policy, PolicyImport
from tests.browser.conftest import DESKTOP, PHONE
from tests.policies.gguf_files import write_gguf
from workers.model_imports.running import import_next_model

pytestmark = [pytest.mark.slow, pytest.mark.django_db(transaction=True)]
TEMPLATE = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}<|assistant|>"


@pytest.mark.parametrize(
    ("viewport", "scheme"), [(DESKTOP, "light"), (PHONE, "dark")], ids=["desktop", "phone"]
)
def test_a_model_is_uploaded_in_pieces_and_added(visit, seeded, tmp_path, viewport, scheme):
    """The second piece is lost once in the network, and is sent again."""
    write_gguf(tmp_path / "tiny.gguf", "qwen2", "Q8_0")
    window = visit(seeded["alice"], viewport, scheme)
    page = window.open("/models/add/")
    page.locator("form.add-model").evaluate("form => { form.dataset.chunkBytes = '50000'; }")
    page.locator("[name=kind][value=upload]").check()
    page.set_input_files("#files", tmp_path / "tiny.gguf")
    page.select_option("#template", "own")
    page.fill("#template_text", TEMPLATE)
    lost = []

    def lose_one(route) -> None:
        if "offset=50000" in route.request.url and not lost:
            lost.append(route.request.url)
            route.abort()
        else:
            route.continue_()

    page.route("**/files/**", lose_one)
    page.locator(".actions .first").click()
    page.wait_for_url("**/model-imports/*/")
    page.get_by_test_id("state").wait_for()
    assert PolicyImport.objects.get().template_text == TEMPLATE and lost
    assert import_next_model("test")
    page.wait_for_url("**/models/*/tiny/")
    policy = Policy.objects.get(slug="tiny")
    assert policy.source == "uploaded: tiny.gguf"
    assert not window.has_overflow()
    assert [said for said in window.complaints if "ERR_FAILED" not in said] == []


def test_server_refusal_is_shown_at_its_field(visit, seeded, tmp_path):
    (tmp_path / "weights.bin").write_bytes(b"x")
    window = visit(seeded["alice"], DESKTOP, "light")
    page = window.open("/models/add/")
    page.locator("[name=kind][value=upload]").check()
    page.fill("#title", "Mine")
    page.set_input_files("#files", tmp_path / "weights.bin")
    page.locator(".actions .first").click()
    page.locator("[data-field-error=files]", has_text="weights.bin").wait_for()
    assert page.locator("#title").input_value() == "Mine"
    assert not PolicyImport.objects.exists()
