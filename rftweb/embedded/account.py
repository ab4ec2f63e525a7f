"""The user account that an embedded server process runs as.

PostgreSQL refuses to run as root, so root needs another account. Three ways are tried, and none
changes the machine (no account is created, no folder opened): an existing unprivileged account; a
user namespace in which root's files belong to `nobody`; and, if neither works (a container under
/root), an account that keeps one capability, to pass folders closed to it.
"""

import os
import pwd
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

NOBODY = 65534
TRIAL_S = 120  # limit for a trial command that takes milliseconds, on a very busy machine


class NoAccount(RuntimeError):
    """Root found neither an account nor a user namespace that could run PostgreSQL."""


@dataclass(frozen=True)
class Account:
    """A way to start a program as some user.

    `prefix` goes before its command, `process` are keywords for Popen, `owner` is the (uid, gid) of
    its files, None for our own. A prefix changes the user itself, so Popen must not.
    """

    owner: tuple[int, int] | None
    prefix: tuple[str, ...] = ()

    @property
    def process(self) -> dict:
        if self.owner is None or self.prefix:
            return {}
        uid, gid = self.owner
        return {"user": uid, "group": gid, "extra_groups": []}

    def command(self, *words: str | Path) -> list[str]:
        return [*self.prefix, *map(str, words)]

    def can(self, *words: str | Path) -> bool:
        """Tell whether a trial command succeeds when run this way."""
        try:
            process = subprocess.run(
                self.command(*words),
                capture_output=True,
                check=False,
                timeout=TRIAL_S,
                cwd="/",
                **self.process,
            )
        except (PermissionError, FileNotFoundError):
            return False
        return process.returncode == 0


OURSELVES = Account(owner=None)


def account_for(folder: Path, programs: Sequence[str]) -> Account:
    """Return the account that can run all `programs` and work inside `folder`.

    The parents of `folder` must exist. Existing files decide: those that an earlier start made for
    one account stay with it. Raises NoAccount for root without any way, PermissionError if the
    files belong to somebody else.
    """
    owner = folder.stat().st_uid if folder.exists() else None
    if os.geteuid() != 0:
        if owner not in (None, os.geteuid()):
            raise PermissionError(
                f"{folder} belongs to user id {owner}; start as that user, or choose another"
                " RFTWEB_VAR"
            )
        return OURSELVES
    for account in _accounts_for_root(owner):
        needed: tuple[str | Path, ...] = (*programs, folder.parent)
        if all(account.can("test", "-x", path) for path in needed):
            return account
    raise NoAccount(
        "PostgreSQL does not run as root, and none of these can be used here: the account in"
        f" SUDO_USER, `postgres` or `nobody` able to reach {folder.parent} and {programs[0]}, a"
        " user namespace (`unshare -U`), or the capability CAP_DAC_OVERRIDE for such an account"
        " (`setpriv`). Start as an ordinary user, or set DATABASE_URL to a server elsewhere"
    )


def _accounts_for_root(owner: int | None) -> list[Account]:
    """Return the accounts that root may try, best first.

    Existing files restrict them to their owner.
    """
    owners = [(entry.pw_uid, entry.pw_gid) for entry in _unprivileged_entries()]
    accounts = [Account(ids) for ids in owners]
    if unshare := shutil.which("unshare"):
        accounts.append(
            Account(
                None, (unshare, "--user", f"--map-user={NOBODY}", f"--map-group={NOBODY}", "--")
            )
        )
    if setpriv := shutil.which("setpriv"):
        accounts += [passing_account(setpriv, *ids) for ids in owners]
    if owner is None:
        return accounts
    return [account for account in accounts if (account.owner or (0, 0))[0] == owner]


def passing_account(setpriv: str, uid: int, gid: int) -> Account:
    """Return an account that keeps CAP_DAC_OVERRIDE.

    Without the secure bit, access(2), by which initdb looks for its programs, would ignore the
    capability. Changing the user clears the parent-death signal, so setpriv sets it again.
    """
    words = (
        setpriv,
        f"--reuid={uid}",
        f"--regid={gid}",
        "--clear-groups",
        "--securebits=+no_setuid_fixup",
        "--inh-caps=+dac_override",
        "--ambient-caps=+dac_override",
        "--pdeathsig=QUIT",
        "--",
    )
    return Account((uid, gid), words)


def _unprivileged_entries() -> list[pwd.struct_passwd]:
    entries = []
    for name in (os.environ.get("SUDO_USER"), "postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name) if name else None
        except KeyError:
            continue
        if entry and entry.pw_uid != 0:
            entries.append(entry)
    return entries
