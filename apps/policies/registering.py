"""Register a sealed weight folder as a policy of a project."""

import math
from pathlib import Path

from apps.accounts.models import Project, User
from apps.policies.damage import Damage, DamagedWeights
from apps.policies.folder import SEEING, read_model_config
from apps.policies.manifest import Manifest, verify_folder
from apps.policies.models import Policy


def register_policy(
    project: Project,
    slug: str,
    folder: Path,
    source: str,
    title: str = "",
    by: User | None = None,
    licence: str = "",
    sealed: Manifest | None = None,
) -> Policy:
    """Create a policy from the sealed version 0 in `folder`.

    `sealed` is the manifest of a folder that the caller, or a process it waited for, has just
    sealed. Without it every byte is read and compared. Raises DamagedWeights, or IntegrityError if
    the slug is taken.
    """
    folder = folder.resolve()
    manifest = sealed or verify_folder(folder)
    if manifest.version != 0:
        raise DamagedWeights(
            Damage.BAD_MANIFEST,
            folder.name,
            f"contains version {manifest.version}, but a policy starts at 0",
        )
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
    """Return the count of numbers stored in the folder; tied weights are stored once."""
    return sum(math.prod(spec.shape) for spec in manifest.tensors.values())


def _context(config: dict) -> int:
    """Return the text model's context length; 0 if the configuration does not tell it."""
    text = config.get("text_config")
    text = text if isinstance(text, dict) else config
    context = text.get("max_position_embeddings") or config.get("max_position_embeddings")
    return context if isinstance(context, int) else 0


def _architecture(config: dict) -> str:
    names = config.get("architectures")
    return str(names[0]) if isinstance(names, list) and names else config["model_type"]
