"""A CPU torch with CUDA companion packages fails obscurely at the first model; the engine reports
it clearly before.
"""

import pytest

from workers.engines.interface import EngineDied
from workers.engines.torch_builds import require_one_build


@pytest.fixture
def installed(tmp_path):
    """Return a function that writes package metadata like an installer and returns the path."""

    def lay(**versions: str) -> list[str]:
        for name, version in versions.items():
            folder = tmp_path / f"{name}-{version}.dist-info"
            folder.mkdir()
            (folder / "METADATA").write_text(
                f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
            )
        return [str(tmp_path)]

    return lay


def test_cuda_companions_of_a_cpu_torch_are_reported_with_the_fix(installed):
    path = installed(torch="2.13.0+cpu", torchvision="0.28.0", torchaudio="2.13.0")
    with pytest.raises(
        EngineDied, match=r"torchvision 0\.28\.0.*pip uninstall torchvision torchaudio"
    ):
        require_one_build(path)


@pytest.mark.parametrize(
    "versions",
    [
        {"torch": "2.13.0+cpu"},
        {"torch": "2.13.0+cpu", "torchvision": "0.28.0+cpu"},
        {"torch": "2.13.0", "torchvision": "0.28.0"},
    ],
)
def test_companions_of_the_same_build_are_accepted(installed, versions):
    require_one_build(installed(**versions))


def test_this_installation_can_import_models():
    require_one_build()
    import transformers.models.qwen3.modeling_qwen3  # noqa: F401
