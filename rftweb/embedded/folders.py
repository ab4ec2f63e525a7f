"""Folders of the embedded servers: data, sockets and passwords."""

import contextlib
import hashlib
import os
import secrets
import tempfile
from pathlib import Path

# A UNIX socket's path, its ending NUL included, must fit into sockaddr_un.sun_path: 108 bytes on
# Linux, 104 on macOS.
SOCKET_PATH_LIMIT = 103


def socket_folder(var: Path, service: str, socket_name: str) -> Path:
    """Return `var/run/<service>`, or a short temporary folder if that path is too long."""
    folder = Path(var).resolve() / "run" / service
    if len(os.fsencode(folder / socket_name)) <= SOCKET_PATH_LIMIT:
        return folder
    digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:12]
    return Path(tempfile.gettempdir()) / f"rftweb-{os.geteuid()}-{digest}"


def make_private(folder: Path, owner: tuple[int, int] | None = None) -> None:
    """Create `folder` with mode 0700 for `owner` (uid, gid; default: us).

    Raises an error if somebody else created it: in a shared temporary directory, another user may
    have put it there as a trap.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    allowed_uids = {os.geteuid(), *(owner or ())[:1]}
    if folder.is_symlink() or status.st_uid not in allowed_uids:
        raise PermissionError(
            f"{folder} belongs to user id {status.st_uid}, not to us; remove it and start again"
        )
    if owner and status.st_uid != owner[0]:
        os.chown(folder, *owner)
    folder.chmod(0o700)


def password(var: Path, service: str) -> str:
    """Return the service's password, created once in `var/secrets` (mode 0600).

    Two simultaneous first readers get the same one.
    """
    path = Path(var) / "secrets" / f"{service}_password"
    make_private(path.parent)
    if not path.exists():
        draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(24))
        with contextlib.suppress(FileExistsError):  # another process was first; its password counts
            os.link(draft, path)
        draft.unlink()
    return path.read_text()


def processes_in(folder: Path) -> set[int]:
    """Return the ids of live processes whose working directory is this folder.

    Both servers work in their data folder and no other process does. A marker in their environment
    would not help: they overwrite it with their title.
    """
    pids = set()
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # the process ended, or belongs to another user
            if Path(os.readlink(entry / "cwd")) == folder:
                pids.add(int(entry.name))
    return pids
