"""The services of docker-compose.yml, run by buildah: images, commands, variables, folders and
health checks are the file's own.

`buildah run --isolation chroot` gives each service its image's file system and user. All of them
share one network namespace, in which nothing but loopback exists: addresses and ports are those of
the compose file, the service names resolve to 127.0.0.1, and they are unreachable from outside.
PostgreSQL and Valkey are the embedded ones, with the options of the compose file.
"""

import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import yaml

from rftweb.embedded import PostgresServer, folders
from rftweb.embedded.binaries import redis_binary
from rftweb.parent_death import make_die_with_parent

ROOT = Path(__file__).resolve().parent.parent
SERVERS = ("postgres", "redis")
POLL_S = 0.5
BUILDAH_CHILD = "buildah-chroot-exec"  # has the image's user too; the command is its child
GRACE_S = 10  # Docker's default if a service sets none
KILLED_S = 10
VARIABLE = re.compile(r"\$(?:\$|\{(\w+)(?::([-?])([^}]*))?\})")
# Loopback is down in a new network namespace. When standard input ends, because the test ends or is
# killed, so do the processes of the namespace: buildah leaves a command running when it dies.
HOLD_NETWORK = """
import fcntl, os, signal, socket, struct, sys
with socket.socket() as any_socket:
    fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh14x", b"lo", 1))  # SIOCSIFFLAGS, IFF_UP
print("up", flush=True)
sys.stdin.read()
ours = os.stat("/proc/self/ns/net").st_ino
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        if os.stat(f"/proc/{pid}/ns/net").st_ino == ours and int(pid) != os.getpid():
            os.kill(int(pid), signal.SIGKILL)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        pass
"""
PING = """
import os, sys, redis
sys.exit(not redis.Redis(password=os.environ["REDISCLI_AUTH"], socket_timeout=2).ping())
"""


class MissingVariable(LookupError):
    """The compose file needs a variable that is not set and has no default."""


def read_services(variables: Mapping[str, str]) -> dict[str, dict]:
    """Return the services of docker-compose.yml with `variables` substituted.

    Raises MissingVariable for `${NAME:?…}` without a value, as compose refuses to start.
    """

    def value(match: re.Match) -> str:
        name, kind, rest = match.groups()
        if name is None:
            return "$"
        if variables.get(name):
            return variables[name]
        if kind == "?":
            raise MissingVariable(f"{name}: {rest}")
        return rest or ""

    text = (ROOT / "docker-compose.yml").read_text()
    return _replaced(yaml.safe_load(text)["services"], lambda word: VARIABLE.sub(value, word))


def _replaced(node: object, replace: Callable[[str], str]) -> object:
    if isinstance(node, dict):
        return {key: _replaced(inner, replace) for key, inner in node.items()}
    if isinstance(node, list):
        return [_replaced(inner, replace) for inner in node]
    return replace(node) if isinstance(node, str) else node


def starting_order(services: Mapping[str, dict]) -> list[str]:
    """Return the names ordered so that each follows its dependencies."""
    order: list[str] = []
    while len(order) < len(services):
        ready = [
            name
            for name, service in services.items()
            if name not in order and set(service.get("depends_on", ())) <= set(order)
        ]
        assert ready, "services have circular dependencies"
        order += ready
    return order


def seconds_of(duration: str) -> float:
    """Read a duration of the compose file, such as 40s."""
    return float(duration.removesuffix("s"))


class Containers:
    """The services, started in order; `close` ends them in reverse order."""

    def __init__(self, buildah: list[str], folder: Path) -> None:
        self.folder = folder
        self.var = folder / "servers"  # the folder of PostgreSQL and Valkey
        self.server = PostgresServer(self.var)
        self.server.ensure()
        self.secrets = {
            "POSTGRES_PASSWORD": folders.password(self.var, "postgres"),
            "REDIS_PASSWORD": folders.password(self.var, "valkey"),
            "RFTWEB_SECRET_KEY": os.urandom(32).hex(),
        }
        self.services = read_services(self.secrets)
        self.processes: dict[str, subprocess.Popen] = {}
        self.exit_codes: dict[str, int] = {}
        self.stop_seconds: dict[str, float] = {}
        self._buildah = buildah
        self._containers: dict[str, str] = {}
        self._enter: list[str] = []
        self._ending = ExitStack()

    def start(self) -> None:
        """Start every service; return when all are healthy and one-time services have succeeded."""
        self._hold_network()
        for name in starting_order(self.services):
            for other, wanted in self.services[name].get("depends_on", {}).items():
                self._await(other, wanted["condition"])
            {"postgres": self._start_postgres, "redis": self._start_valkey}.get(
                name, self._start_container
            )(name)
        for name, service in self.services.items():
            if "healthcheck" in service:
                self._await(name, "service_healthy")

    def execute(self, name: str, *command: str, seconds: float = 300) -> str:
        """Run a command in a container, as `docker compose exec` does; return its output."""
        done = self._run_in(name, command, seconds)
        assert done.returncode == 0, f"{name}: {command}: {done.stdout}{done.stderr}"
        return done.stdout

    def main_process(self, name: str) -> psutil.Process:
        """Return the process of a container's command."""
        user = self.image_user(name)
        inside = psutil.Process(self.processes[name].pid).children(recursive=True)
        theirs = [process for process in inside if process.uids().real == user]
        return next(process for process in theirs if process.cmdline()[0] != BUILDAH_CHILD)

    def image_user(self, name: str) -> int:
        """Return the user id that a service's image runs as."""
        asked = [*self._buildah, "inspect", "--format", "{{.OCIv1.Config.User}}"]
        user = _output([*asked, self._containers[name]]).strip()
        for line in (self.root(name) / "etc/passwd").read_text().splitlines():
            account, _, uid, *_ = line.split(":")
            if user in (account, uid):
                return int(uid)
        raise AssertionError(f"{name}: the image's user {user!r} is missings /etc/passwd")

    def written(self, name: str) -> list[str]:
        """Return what a service's user wrote in its container's file system, volumes apart.

        A file that was created and deleted changes the time of its folder.
        """
        newer = ["-xdev", "-newer", str(self.folder / f"{name}.log.start"), "!", "-type", "l"]
        writable = ["(", "-uid", str(self.image_user(name)), "-o", "-perm", "-o+w", ")"]
        return _output(["find", str(self.root(name)), *newer, *writable]).splitlines()

    def root(self, name: str) -> Path:
        """Return where a container's file system is mounted."""
        return Path(_output([*self._buildah, "mount", self._containers[name]]).strip())

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def stop(self, name: str) -> None:
        """Send SIGTERM and wait as long as the compose file lets the service; then kill."""
        process = self.processes[name]
        began = time.monotonic()
        if process.poll() is None:
            inner = process if name in SERVERS else self.main_process(name)
            inner.send_signal(signal.SIGINT if name == "postgres" else signal.SIGTERM)
            grace = self.services[name].get("stop_grace_period", f"{GRACE_S}s")
            try:
                process.wait(seconds_of(grace))
            except subprocess.TimeoutExpired:
                _kill(process)
            self.stop_seconds[name] = time.monotonic() - began
        self.exit_codes[name] = process.returncode
        del self.processes[name]

    def close(self) -> None:
        """End all running services, and remove the containers."""
        with self._ending:
            for name in reversed(list(self.processes)):
                self.stop(name)

    def _hold_network(self) -> None:
        command = ["unshare", "--net", sys.executable, "-c", HOLD_NETWORK]
        pipe = subprocess.PIPE
        holder = self._ending.enter_context(subprocess.Popen(command, stdin=pipe, stdout=pipe))
        assert holder.stdout.readline() == b"up\n"
        self._enter = ["nsenter", f"--net=/proc/{holder.pid}/ns/net"]
        self._ending.callback(self._remove_containers)
        self._ending.callback(holder.communicate)  # closes its input: kills what still runs

    def _start_postgres(self, name: str) -> None:
        command, account = self.server.command()
        options = self.services[name]["command"][1:]
        if account:
            ids = {"--reuid": account["user"], "--regid": account["group"]}
            changed = [f"{option}={number}" for option, number in ids.items()]
            command = ["setpriv", *changed, "--clear-groups", *command]
        self._spawn(name, [*command, *options, "-c", "listen_addresses=127.0.0.1"])

    def _start_valkey(self, name: str) -> None:
        """Start Valkey with the program names of the image."""
        programs = self.folder / "bin"
        data = self.folder / "valkey"
        for folder in (programs, data):
            folder.mkdir()
        (programs / "valkey-server").symlink_to(redis_binary())
        entrypoint = programs / "docker-entrypoint.sh"
        entrypoint.write_text('#!/bin/sh\nexec "$@"\n')
        entrypoint.chmod(0o755)
        service = self.services[name]
        path = f"{programs}:{os.environ['PATH']}"
        environment = {**os.environ, **service["environment"], "PATH": path}
        self._spawn(name, service["command"], cwd=data, env=environment)

    def _start_container(self, name: str) -> None:
        image = self.services[name]["image"]
        label = f"rftweb-test-{os.getpid()}-{name}"
        words = [*self._buildah, "from", "--pull-never", "--name", label]
        for other in self.services:
            words += ["--add-host", f"{other}:127.0.0.1"]
        self._containers[name] = _output([*words, image]).strip()
        command = self._command(name)
        (self.folder / f"{name}.log.start").touch()
        self._spawn(name, command)

    def _remove_containers(self) -> None:
        if self._containers:
            _output([*self._buildah, "umount", *self._containers.values()])
            _output([*self._buildah, "rm", *self._containers.values()])

    def _command(self, name: str) -> list[str]:
        service = self.services[name]
        words = [*self._buildah, "run", "--isolation", "chroot"]
        for variable, value in service["environment"].items():
            words += ["--env", f"{variable}={value}"]
        for place, folder in self._mounts(name):
            words += ["--volume", f"{folder}:{place}"]
        hardened = "no-new-privileges:true" in service.get("security_opt", ())
        prefix = ["setpriv", "--no-new-privs"] if hardened else []
        return [*words, self._containers[name], "--", *prefix, *service["command"]]

    def _mounts(self, name: str) -> Iterator[tuple[str, Path]]:
        """Yield (path inside, folder) of volumes, and of folders that an engine keeps in memory."""
        service = self.services[name]
        for volume in service.get("volumes", []):
            source, place = volume.split(":")[:2]
            yield place, self._volume(self.folder / "volumes" / source, self.root(name) / place[1:])
        for place in service.get("tmpfs", []):
            folder = self.folder / "tmpfs" / name / place.strip("/").replace("/", "-")
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o1777)
            yield place, folder

    @staticmethod
    def _volume(folder: Path, inside: Path) -> Path:
        """Create a volume as an engine does: with the image's files at that path, with owners."""
        if not folder.exists():
            folder.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(inside, folder)
            owner = inside.stat()
            os.chown(folder, owner.st_uid, owner.st_gid)
            folder.chmod(stat.S_IMODE(owner.st_mode))
        return folder

    def _spawn(self, name: str, command: list[str], **popen) -> None:
        with (self.folder / f"{name}.log").open("wb") as log:
            self.processes[name] = subprocess.Popen(
                [*self._enter, *command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=make_die_with_parent(),
                **popen,
            )

    def _await(self, name: str, condition: str) -> None:
        if condition == "service_completed_successfully":
            code = self.processes[name].wait(timeout=600)
            assert code == 0, f"{name} ended with {code}: {self.log(name)[-2000:]}"
            return
        ends = time.monotonic() + 300
        while not self._is_healthy(name):
            code = self.processes[name].poll()
            assert code is None, f"{name} ended with {code}: {self.log(name)[-2000:]}"
            assert time.monotonic() < ends, f"{name} is not healthy: {self.log(name)[-2000:]}"
            time.sleep(POLL_S)  # a poll; the deadline decides

    def _is_healthy(self, name: str) -> bool:
        if name == "postgres":
            return self.server.is_ready()
        check = self.services[name]["healthcheck"]
        if name == "redis":
            command = [*self._enter, sys.executable, "-c", PING]
            environment = {**os.environ, **self.services[name]["environment"]}
            done = subprocess.run(command, env=environment, capture_output=True, check=False)
            return done.returncode == 0
        assert check["test"][0] == "CMD", f"{name}: {check['test']}"
        try:
            return self._run_in(name, check["test"][1:], 60).returncode == 0
        except StopIteration:  # buildah has not started the command yet
            return False

    def _run_in(
        self, name: str, command: Sequence[str], seconds: float
    ) -> subprocess.CompletedProcess:
        """Run a command beside a container's main process: its file system, user and variables."""
        main = self.main_process(name)
        words = [shutil.which("nsenter"), f"--target={main.pid}", "--mount", "--net", "--root"]
        words += [f"--setuid={main.uids().real}", f"--setgid={main.gids().real}"]
        return subprocess.run(
            [*words, "--wd", "--", *command],
            env=main.environ(),
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
            preexec_fn=make_die_with_parent(),
        )


@contextmanager
def running(buildah: list[str], folder: Path) -> Iterator[Containers]:
    """Start every service of docker-compose.yml; end them all at the end, also after an error."""
    containers = Containers(buildah, folder)
    try:
        containers.start()
        yield containers
    finally:
        containers.close()


def _kill(process: subprocess.Popen) -> None:
    """Kill a process and all its child processes."""
    tree = [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]
    for one in tree:
        one.kill()
    process.wait(KILLED_S)


def _output(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stderr}"
    return done.stdout
