"""Making a sealed weight folder known as a policy of a project."""

import math
from pathlib import Path

from apps.accounts.models import Project, User
from apps.policies.damage import Damage, DamagedWeights
from apps.policies.folder import SEEING, read_model_config
from apps.policies.manifest import Manifest, verify
from apps.policies.models import Policy


def register(
    project: Project,
    slug: str,
    folder: Path,
    source: str,
    title: str = "",
    by: User | None = None,
    licence: str = "",
    sealed: Manifest | None = None,
) -> Policy:
    """A policy of the sealed version 0 in `folder`.

    `sealed`: the manifest of a folder that the caller has just sealed, or had sealed by a process
    that it waited for. Without it every byte is read and compared. Raises DamagedWeights, or
    IntegrityError when the slug is taken.
    """
    folder = folder.resolve()
    manifest = sealed or verify(folder)
    if manifest.version != 0:
        raise DamagedWeights(Damage.BAD_MANIFEST, folder.name, f"holds version {manifest.version}, a policy starts at 0")
    config = read_model_config(folder)
    return Policy.objects.create(
        project=project,
        slug=slug,
        title=title or slug,
        source=source,
        licence=licence,
        folder=str(folder),
        fingerprint=manifest.fingerprint,
        architecture=_architecture(config),
        parameters=parameter_count(manifest),
        context_tokens=_context(config),
        sees_pictures=config["model_type"] in SEEING,
        created_by=by,
    )


def parameter_count(manifest: Manifest) -> int:
    """Numbers stored in the folder; tied weights are stored, and counted, once."""
    return sum(math.prod(spec.shape) for spec in manifest.tensors.values())


def _context(config: dict) -> int:
    """Of the text model, where the configuration holds several; 0 when it does not say."""
    text = config.get("text_config")
    text = text if isinstance(text, dict) else config
    context = text.get("max_position_embeddings") or config.get("max_position_embeddings")
    return context if isinstance(context, int) else 0


def _architecture(config: dict) -> str:
    names = config.get("architectures")
    return str(names[0]) if isinstance(names, list) and names else config["model_type"]
