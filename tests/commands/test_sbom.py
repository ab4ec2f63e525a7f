"""The bill of materials lists every pinned package once for each version."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_bill_of_materials_lists_locks_torch_and_browser_files():
    command = [sys.executable, str(ROOT / "scripts" / "sbom.py")]
    document = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    assert (document["bomFormat"], document["specVersion"]) == ("CycloneDX", "1.6")
    refs = [component["bom-ref"] for component in document["components"]]
    assert len(refs) == len(set(refs))
    pinned = (ROOT / "requirements" / "base.lock").read_text().count("==")
    assert len(refs) > pinned > 50
    for name in ("pkg:pypi/django@", "pkg:pypi/torch@", "pkg:pypi/trl@", "pkg:npm/htmx.org@"):
        assert any(ref.startswith(name) for ref in refs), name
