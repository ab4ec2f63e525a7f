"""Rendering of previews, each in a confined process of its own."""

import json
import subprocess
import sys
from typing import Any

import structlog
from django.conf import settings

from apps.policies.chat_presets import PRESETS
from apps.policies.models import TemplatePreview
from workers.leases import renewed

log = structlog.get_logger(__name__)
MAX_SECONDS = 120.0  # for loading and rendering; the processor time is limited besides
TOO_LONG = "rendering took too long, or too much memory; simplify the template"


def preview_next(owner: str) -> bool:
    """Render the oldest preview that is due; return whether there was one."""
    preview = TemplatePreview.objects.claim(owner, settings.LEASE_SECONDS)
    if preview is None:
        return False
    with renewed(lambda: preview.renew(settings.LEASE_SECONDS)):
        answer = _render_preview(preview)
    if "refusal" in answer:
        preview.fail(answer["refusal"])
    else:
        preview.finish(answer["pieces"], answer["tokens"])
    return True


def _render_preview(preview: TemplatePreview) -> dict[str, Any]:
    """Return the answer of the process, or a refusal if it gave none."""
    preset = PRESETS.get(preview.template)
    template = preview.template_text or (preset.text if preset else "")
    try:
        process = subprocess.run(
            [sys.executable, "-m", "workers.policies.preview", preview.policy.folder],
            input=json.dumps({"messages": preview.messages, "template": template}),
            cwd=settings.BASE_DIR,
            capture_output=True,
            text=True,
            timeout=MAX_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"refusal": TOO_LONG}
    if process.returncode:
        log.warning("preview_failed", preview=preview.pk, status=process.returncode)
        return {"refusal": TOO_LONG}
    result: dict[str, Any] = json.loads(process.stdout.splitlines()[-1])
    return result
