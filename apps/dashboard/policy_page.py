"""Content of a policy's page: what its folder holds."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from apps.policies.damage import DamagedWeights
from apps.policies.manifest import Manifest, read_manifest
from apps.policies.models import Policy

LICENCES = ("LICENSE", "LICENSE.txt")
TEMPLATE = "chat_template.jinja"
TEXT_LIMIT = 64 << 10  # bytes of a text that is shown


@dataclass(frozen=True)
class PolicyContent:
    """The content by the manifest; `kinds` are (dtype, number of tensors).

    Texts are empty if there is no such file.
    """

    manifest: Manifest
    kinds: list[tuple[str, int]]
    licence_text: str
    chat_template: str

    @property
    def bytes(self) -> int:
        return sum(entry.bytes for entry in self.manifest.files.values())


def read_policy_content(policy: Policy) -> PolicyContent | None:
    """Return the content, or None if the folder cannot be read on this machine."""
    folder = Path(policy.folder)
    try:
        manifest = read_manifest(folder)
        licences = [_text(folder / name) for name in LICENCES if name in manifest.files]
        template = _text(folder / TEMPLATE) if TEMPLATE in manifest.files else ""
    except (DamagedWeights, OSError):
        return None
    kinds = Counter(spec.dtype for spec in manifest.tensors.values())
    licence = licences[0] if licences else ""
    return PolicyContent(manifest, kinds.most_common(), licence, template)


def _text(path: Path) -> str:
    with path.open("rb") as stream:
        return stream.read(TEXT_LIMIT).decode("utf-8", "replace")
