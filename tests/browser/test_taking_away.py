"""The model is exported from the Export page: a format is chosen, a push is requested."""

from pathlib import Path

import pytest

from apps.policies.manifest import read_manifest
from apps.policies.models import Policy
from apps.runs.models import ExportJob
from tests.browser.conftest import DESKTOP, PHONE
from tests.workers.exporting.tiny_models import byte_level, sealed

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def tone(seeded, tmp_path: Path) -> dict:
    """Return the tone run, with real weights for its newest version and its base model."""
    sealed(tmp_path / "v3", "llama", byte_level())
    told = {
        "folder": str(tmp_path / "v3"),
        "fingerprint": read_manifest(tmp_path / "v3").fingerprint,
    }
    seeded["run"].weight_versions.filter(version=3).update(**told)
    Policy.objects.filter(pk=seeded["run"].policy_id).update(**told)
    return seeded


@pytest.mark.parametrize(("size", "name"), [(DESKTOP, "desktop"), (PHONE, "phone")])
def test_the_model_is_exported_from_the_export_page(tone, visit, size, name):
    window = visit(tone["alice"], size)
    page = window.open("/runs/lab/tone-7/exports/?version=3")
    window.picture(f"exports-{name}")
    page.check("input[name=form][value=gguf-q8_0]")
    page.click("#export button.first >> nth=0")
    page.wait_for_url("**/weights/3/")
    page.get_by_text("GGUF, Q8_0").first.wait_for()
    [order] = ExportJob.objects.all()
    assert (order.kind, order.options) == ("export", {"form": "gguf-q8_0"})
    page.click("#push summary")
    page.fill("#push-repository", "polite")
    page.fill("#push-token", "hf_secret")
    page.click("#push button.first")
    page.get_by_text("It must be owner/name").wait_for()
    assert page.input_value("#push-token") == ""
    window.picture(f"weight-{name}")
    assert not window.has_overflow()
    assert [one for one in window.complaints if "422" not in one] == []
