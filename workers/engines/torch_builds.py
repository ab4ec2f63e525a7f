"""Check that torch's companion packages come from the same build as torch.

vLLM's requirements bring torchvision, torchaudio and torchcodec as CUDA builds. Beside a CPU build
of torch, the first import of a model then fails with the obscure message "operator torchvision::nms
does not exist". A policy that reads text needs none of these packages.
"""

import sys
from importlib.metadata import Distribution, distributions

from workers.engines.interface import EngineDied

COMPANIONS = ("torchvision", "torchaudio", "torchcodec")


def require_one_build(path: list[str] | None = None) -> None:
    """Raise EngineDied if torch is a CPU build and a companion package is not.

    The message names the packages and the cure. `path`: folders to search; None searches the import
    path.
    """
    folders = sys.path if path is None else path
    torch = _installed("torch", folders)
    if torch is None or not _for_cpu(torch):
        return
    companions = {name: _installed(name, folders) for name in COMPANIONS}
    strangers = [
        f"{name} {package.version}"
        for name, package in companions.items()
        if package is not None and not _for_cpu(package)
    ]
    if strangers:
        names = " ".join(stranger.split()[0] for stranger in strangers)
        raise EngineDied(
            f"torch {torch.version} is a CPU build, {', '.join(strangers)} not, and beside them no"
            f" model can be imported: pip uninstall {names}"
        )


def _installed(name: str, folders: list[str]) -> Distribution | None:
    """Return the package that an import would find, without reading the metadata of all others."""
    return next(iter(distributions(name=name, path=folders)), None)


def _for_cpu(distribution: Distribution) -> bool:
    return distribution.version.endswith("+cpu")
