"""Each guest has a separate control group when cgroup v2 is delegated to us."""

import threading
from pathlib import Path

import pytest

from apps.rewards.sandbox import GuestResult, Limits, NoSandbox, Program, cgroups, prepare_program

REAL = Path("/sys/fs/cgroup/unified")  # if version 1 is mounted too
SYSTEM = Path("/sys/fs/cgroup")


def hierarchy(folder: Path, group: str, controllers: str, enabled: str = "") -> Path:
    """Write the kernel's files about a process in this group; return the process's folder."""
    mount = folder / "cgroup"
    own = mount / group
    own.mkdir(parents=True)
    for place in {own, own.parent if group else own}:
        (place / "cgroup.controllers").write_text(controllers)
        (place / "cgroup.subtree_control").write_text(enabled)
    process = folder / "self"
    process.mkdir()
    (process / "mountinfo").write_text(f"30 1 0:26 / {mount} rw - cgroup2 cgroup2 rw\n")
    (process / "cgroup").write_text(f"1:name=systemd:/other\n0::/{group}\n")
    return process


def test_missing_cgroup_v2_is_reported_as_the_reason(tmp_path):
    (tmp_path / "mountinfo").write_text("30 1 0:26 / /sys/fs/cgroup/pids rw - cgroup cgroup rw\n")
    found = cgroups.delegation.__wrapped__(tmp_path)
    assert found.folder is None
    assert found.description.endswith("polling (no cgroup v2 is mounted)")


@pytest.mark.parametrize(
    ("controllers", "delegated", "reason"),
    [
        ("cpu pids", True, "cgroup v2 does not control memory here"),
        ("cpu memory pids", False, "no cgroup v2 is delegated to this process"),
        ("cpu memory pids", True, ""),
    ],
)
def test_control_group_must_be_delegated_with_its_controllers(
    tmp_path, monkeypatch, controllers, delegated, reason
):
    process = hierarchy(tmp_path, "system.slice/rftweb.service/main", controllers)
    monkeypatch.setattr(cgroups, "_is_delegated", lambda _: delegated)
    found = cgroups.delegation.__wrapped__(process)
    assert found.why_not == reason
    if not reason:
        assert found.folder == tmp_path / "cgroup/system.slice/rftweb.service"
        wanted = (found.folder / "cgroup.subtree_control").read_text()
        assert wanted == "+memory +pids" and not list(found.folder.glob("guest-*"))


def usable(controller: str) -> Path | None:
    """Return a group on this machine whose children may have the controller."""
    for mount in (REAL, SYSTEM):
        try:
            if controller in (mount / "cgroup.controllers").read_text().split():
                (mount / "cgroup.subtree_control").write_text(f"+{controller}")
                return mount
        except OSError:
            continue
    return None


@pytest.fixture
def enforced(request, monkeypatch) -> Path:
    """Return the group in which guests of this test get their groups."""
    controllers: tuple[str, ...] = request.param
    folders = {usable(controller) for controller in controllers}
    if len(folders) > 1 or None in folders:
        pytest.skip(f"cgroup v2 on this machine gives us no {' and '.join(controllers)}")
    monkeypatch.setattr(cgroups, "CONTROLLERS", controllers)
    cgroups.delegation.cache_clear()
    folder = folders.pop()
    yield folder
    cgroups.delegation.cache_clear()
    (folder / "cgroup.subtree_control").write_text(" ".join(f"-{name}" for name in controllers))


def killed_from_outside(folder: Path, until: threading.Event) -> None:
    """Kill every guest whose group has processes.

    The first may be the server that forks guests; then a guest is started without it.
    """
    while not until.is_set():
        for group in folder.glob("guest-*"):
            try:
                if (group / "cgroup.procs").read_text():
                    (group / "cgroup.kill").write_text("1")
            except OSError:
                continue


def run(source: str, limits: Limits) -> GuestResult:
    return prepare_program(source, "python").run(b"", limits)


def last_words(guest: Program) -> str:
    """Return how a guest with much time ended; bubblewrap may die before it reports a status."""
    try:
        ended = guest.run(b"", Limits(wall_s=30))
    except NoSandbox as why:
        return str(why)
    return f"{ended.status} {ended.stdout}"


@pytest.mark.parametrize("enforced", [("hugetlb",), ("memory", "pids")], indirect=True)
def test_killing_the_control_group_kills_the_whole_guest_and_the_group_is_removed(enforced):
    assert cgroups.delegation().folder == enforced
    guest = prepare_program("import time\ntime.sleep(20)\nprint('survived')", "python")
    ended = threading.Event()
    killer = threading.Thread(target=killed_from_outside, args=(enforced, ended))
    killer.start()
    try:
        said = last_words(guest)
    finally:
        ended.set()
        killer.join()
    # It can be killed at any time: while it sleeps, or before its first line.
    assert "survived" not in said
    assert "137" in said or "did not come up" in said
    assert not list(enforced.glob("guest-*"))


@pytest.mark.parametrize("enforced", [("memory", "pids")], indirect=True)
def test_kernel_stops_a_guest_that_uses_too_much_memory(enforced, monkeypatch):
    monkeypatch.setattr("apps.rewards.sandbox.usage.Usage.excess", lambda self: "")
    source = "import mmap\nkept = [mmap.mmap(-1, 1 << 20) for _ in range(400)]\n"
    source += "for one in kept: one[:] = bytes(1 << 20)\nprint('survived')"
    ended = run(source, Limits(memory_mb=64, cpu_s=5, wall_s=20))
    assert ended.stopped == "out of memory" or ended.status != 0
    assert b"survived" not in ended.stdout
