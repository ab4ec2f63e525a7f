"""Checks of weight versions: files match their manifests, and engines served published versions."""

from collections.abc import Iterator
from pathlib import Path

from django.db.models import Count, Exists, F, OuterRef

from apps.buffer.models import Recorded, Seed
from apps.environments.models import Episode
from apps.policies.manifest import DamagedWeights, verify_folder
from apps.rollouts.models import Rollout
from apps.runs.models import Acknowledgement, Run, WeightVersion

PROBE_GAP_ALLOWED = 0.05


SHOWN = 20


def published_weights_match_their_manifests() -> Iterator[str]:
    """Yield published versions that are not verified or that fail verification.

    The newest folder of each run is read and compared bit by bit.
    """
    published = WeightVersion.objects.filter(
        state__in=(WeightVersion.State.PUBLISHED, WeightVersion.State.RETIRED), version__gt=0
    )
    yield from (f"{v}: published, but never verified" for v in published.filter(verified_at=None))
    doubled = published.values("run", "step").annotate(n=Count("pk")).filter(n__gt=1)
    yield from (
        f"run {row['run']}: {row['n']} versions are published for step {row['step']}"
        for row in doubled
    )
    for run in Run.objects.filter(published_version__gt=0):
        version = run.weight_versions.get(version=run.published_version)
        try:
            if verify_folder(Path(version.folder)).fingerprint != version.fingerprint:
                yield f"{version}: the fingerprint of the folder differs"
        except (DamagedWeights, OSError) as damage:
            yield f"{version}: {damage}"


def engines_served_what_was_published() -> Iterator[str]:
    words = Acknowledgement.objects.select_related("weight_version", "worker")
    for word in words.exclude(fingerprint=F("weight_version__fingerprint"))[:SHOWN]:
        yield f"{word}: the fingerprint differs from the version's"
    for word in words.filter(probe_gap__gt=PROBE_GAP_ALLOWED)[:SHOWN]:
        yield f"{word}: the logprob gap of {word.probe_gap:.3f} is too large"
    sampled = Rollout.objects.filter(state=Rollout.State.FINISHED, origin=Rollout.Origin.POLICY)
    copied = Recorded.objects.filter(
        group=OuterRef("group")
    )  # engines of another run sampled replayed rollouts
    imported = Episode.objects.filter(rollout=OuterRef("pk")).exclude(
        origin={}
    )  # engines elsewhere sampled imported rollouts
    seeded = Seed.objects.filter(group=OuterRef("group"))  # the same for seeded ones
    for row in (
        sampled.filter(~Exists(copied), ~Exists(imported), ~Exists(seeded))
        .values("run", "last_version")
        .distinct()
    ):
        version = row["last_version"]
        served = words.filter(weight_version__run=row["run"])
        if version is None or not served.filter(weight_version__version=version).exists():
            yield (
                f"run {row['run']}: has rollouts of version {version}, which no engine acknowledged"
            )
