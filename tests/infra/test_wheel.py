"""`pip install .`: the wheel has all files, and its command `rftweb` runs the demo."""

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from tests.ports import kept_port
from tests.warm_policies import copy_warm_policies
from tests.wheels import FOLDERS, ROOT, build_wheel

CODE = ("apps", "rftweb", "workers")
NOT_IN_HELP = ("-dark.png", "-phone-light.png", ".gif")  # no help page shows these
COMMAND_LINE = "rftweb = rftweb.__main__:main"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return build_wheel(tmp_path_factory.mktemp("wheel"))


def installed_place(path: Path) -> str:
    """Return the path in the wheel of a file of the checkout."""
    name = path.relative_to(ROOT).as_posix()
    return name if name.startswith(CODE) else f"rftweb/files/{name}"


@pytest.mark.slow
def test_wheel_contains_all_files_of_the_code_and_pages_and_no_others(wheel):
    files = [path for name in FOLDERS for path in (ROOT / name).rglob("*") if path.is_file()]
    wanted = {
        installed_place(path)
        for path in files
        if not {"__pycache__", "node_modules"}.intersection(path.parts)
        and not path.name.startswith(".")
        and not path.name.endswith(NOT_IN_HELP)
    }
    with zipfile.ZipFile(wheel) as archive:
        has = {name for name in archive.namelist() if not name.startswith("rftweb-")}
        entry_points = archive.read(f"{info_folder(archive)}/entry_points.txt").decode()
    assert has == wanted
    assert COMMAND_LINE in entry_points


@pytest.mark.slow
def test_wheel_requires_the_packages_that_a_checkout_installs(wheel):
    with zipfile.ZipFile(wheel) as archive:
        metadata = archive.read(f"{info_folder(archive)}/METADATA").decode().lower()
    for lines in ("base.in", "train.in"):
        for line in (ROOT / "requirements" / lines).read_text().splitlines():
            if line and not line.startswith(("#", "-")):
                assert f"requires-dist: {line.partition(' ')[0].lower()}" in metadata


def info_folder(archive: zipfile.ZipFile) -> str:
    [name] = {name.split("/")[0] for name in archive.namelist() if name.startswith("rftweb-")}
    return name


@pytest.fixture(scope="module")
def command(wheel, tmp_path_factory):
    """Return the command `rftweb` of a new environment with the wheel and our libraries."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    paths = {"base": str(folder), "platbase": str(folder)}
    packages = Path(sysconfig.get_path("purelib", vars=paths))
    (packages / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "install"]
    subprocess.run([*pip, "--quiet", "--no-deps", "--no-index", wheel], check=True)
    return folder / "bin" / "rftweb"


@pytest.mark.slow
@pytest.mark.stack
@pytest.mark.nightly  # tests/commands/test_demo.py tests the same with a checkout
def test_installed_command_runs_the_demo_from_an_empty_folder(command, tmp_path):
    data = tmp_path / "data" / "rftweb"
    copy_warm_policies(("sort",), data)
    (tmp_path / "empty").mkdir()
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("RFTWEB_", "DATABASE_", "REDIS_", "DJANGO_", "PYTHONPATH"))
    }
    keeper, port = kept_port()
    with keeper:
        done = subprocess.run(
            [command, "demo", "--run", "sort", "--steps", "2", "--exit", "--port", str(port)],
            cwd=tmp_path / "empty",
            env={**environment, "XDG_DATA_HOME": str(tmp_path / "data")},
            capture_output=True,
            text=True,
            timeout=550,
            check=False,
        )
    assert done.returncode == 0, done.stderr[-3000:]
    facts = json.loads(done.stdout)
    assert (facts["steps"], facts["reconcile"]) == (2, "clean")
    assert (data / "log").is_dir()
    assert list((tmp_path / "empty").iterdir()) == []
