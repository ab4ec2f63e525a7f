"""What a policy's folder holds, as its page shows it."""

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
    """By its manifest; `kinds`: (dtype, tensors of it). Texts are empty where there is no such file."""

    manifest: Manifest
    kinds: list[tuple[str, int]]
    licence_text: str
    chat_template: str

    @property
    def bytes(self) -> int:
        return sum(entry.bytes for entry in self.manifest.files.values())


def content_of(policy: Policy) -> PolicyContent | None:
    """None where its folder cannot be read on this machine."""
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


def source_of(policy: Policy) -> str:
    """Where it came from; of a folder or file of this machine its own name alone."""
    return Path(policy.source).name if policy.source.startswith("/") else policy.source


def _text(path: Path) -> str:
    with path.open("rb") as stream:
        return stream.read(TEXT_LIMIT).decode("utf-8", "replace")
