"""A weight version in one of the formats that other programs read, as a folder to take away."""

from pathlib import Path

from apps.policies.as_gguf import KINDS, explain_no_gguf
from apps.policies.exporting import export_adapter, export_gguf, export_version
from apps.policies.manifest import read_manifest
from apps.runs.model_card import version_folder_name, write_model_card
from apps.runs.models import NotPossible, WeightVersion
from apps.runs.models.orders import FOLDER


def write_form(version: WeightVersion, form: str, final: Path) -> int:
    """Write the version in this form at `final`, which must not be there; returns its bytes.

    Raises NotPossible, NotCopied, DamagedWeights, OSError; nothing takes the name `final` then.
    """
    source = Path(version.folder)
    manifest = read_manifest(source)
    card = write_model_card(version, manifest, form)
    if form in KINDS:
        return export_gguf(source, final, form, card, _describe_download(version))
    if form == FOLDER:
        return export_version(source, final, card)
    if manifest.base is None:
        raise NotPossible(f"version {version.version} has full weights, not an adapter")
    return export_adapter(source, final, version.run.policy.slug, card)


def why_not_gguf(version: WeightVersion) -> str:
    """Return why the version cannot become a GGUF file; "" if no reason is known.

    Every version of a run keeps the configuration and the tokenizer of the run's policy.
    """
    return explain_no_gguf(Path(version.run.policy.folder))


def name_of_form(version: WeightVersion, form: str) -> str:
    """Name the folder, and the file that is downloaded."""
    return (
        version_folder_name(version) if form == FOLDER else f"{version_folder_name(version)}-{form}"
    )


def _describe_download(version: WeightVersion) -> dict[str, object]:
    """Return the description for a GGUF file, and the temperature of the run's sampling."""
    about = f"{version.run.address}, weight version {version.version}, {version.fingerprint}"
    temperature = version.run.settings.sampling.temperature
    return {"name": version_folder_name(version), "about": about, "temperature": temperature}
