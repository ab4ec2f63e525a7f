"""A weight version in one of the formats that other programs read, as a folder to take away."""

from pathlib import Path

from apps.policies.as_gguf import KINDS, why_not
from apps.policies.exporting import export, export_adapter, export_gguf
from apps.policies.manifest import read_manifest
from apps.runs.model_card import card_of, name_of
from apps.runs.models import NotPossible, WeightVersion
from apps.runs.models.orders import FOLDER


def write_form(version: WeightVersion, form: str, final: Path) -> int:
    """Write the version in this form at `final`, which must not be there; returns its bytes.

    Raises NotPossible, NotCopied, DamagedWeights, OSError; nothing takes the name `final` then.
    """
    source = Path(version.folder)
    manifest = read_manifest(source)
    card = card_of(version, manifest, form)
    if form in KINDS:
        return export_gguf(source, final, form, card, _told(version))
    if form == FOLDER:
        return export(source, final, card)
    if manifest.base is None:
        raise NotPossible(f"version {version.version} holds whole weights, no adapter")
    return export_adapter(source, final, version.run.policy.slug, card)


def why_not_gguf(version: WeightVersion) -> str:
    """Why the version cannot be a GGUF file; empty where nothing is known against it.

    Whatever a run trains keeps the configuration and the tokenizer of the policy it began with.
    """
    return why_not(Path(version.run.policy.folder))


def name_of_form(version: WeightVersion, form: str) -> str:
    """Name the folder, and the file that is downloaded."""
    return name_of(version) if form == FOLDER else f"{name_of(version)}-{form}"


def _told(version: WeightVersion) -> dict[str, object]:
    """What a GGUF file says of itself, and the temperature at which it learned."""
    about = f"{version.run.address}, weight version {version.version}, {version.fingerprint}"
    temperature = version.run.settings.sampling.temperature
    return {"name": name_of(version), "about": about, "temperature": temperature}
