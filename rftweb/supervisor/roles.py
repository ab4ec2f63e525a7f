"""The roles of an installation, as programs: services first, then web and workers, beat last."""

import http.client
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rftweb.embedded import PostgresServer, ValkeyServer
from rftweb.supervisor.program import BEAT_STAGE, SERVICE_STAGE, WORK_STAGE, WORKER_STOP, CannotStart, Program

# Which queues each worker role serves. docker-compose.yml says the same (tests/infra/test_compose.py).
QUEUES = {
    "explorer": ("explore",),
    "scorer": ("score",),
    "refiner": ("refine",),
    "trainer": ("train",),
    "control": ("control",),
}
# Engines and trainers live in one pool child. Control jobs are short and many: one process, a thread for each.
POOLS = {"control": ("threads", 12)}
ONE_CHILD = ("prefork", 1)
SERVICES = ("postgres", "valkey")
ROLES = (*SERVICES, "web", *QUEUES, "beat")
GPU_ROLES = ("explorer", "trainer")
WEB_PROCESSES = 2  # a Python process uses one core
MANAGE = Path(__file__).resolve().parents[2] / "manage.py"


@dataclass(frozen=True)
class Plan:
    """What is to run. `roles`: names from ROLES. `counts`: instances of a worker role, default one, and
    processes that answer pages, default WEB_PROCESSES.

    `simulated_rater`: also start the program that rates where a run lets it (the demo does).
    """

    var: Path
    roles: tuple[str, ...] = ROLES
    port: int = 8000
    counts: Mapping[str, int] = field(default_factory=dict)
    simulated_rater: bool = False

    @property
    def address(self) -> str:
        """Where the pages will be; empty when no web process is planned."""
        return f"http://127.0.0.1:{self.port}" if "web" in self.roles else ""


def programs(plan: Plan) -> list[Program]:
    """One program per instance of each role in the plan, in the order of starting."""
    found = []
    if "postgres" in plan.roles:
        found.append(service_program("postgres", PostgresServer(plan.var)))
    if "valkey" in plan.roles:
        found.append(service_program("valkey", ValkeyServer(plan.var)))
    if "web" in plan.roles:
        found.append(web_program(plan))
    names = [(role, name) for role in QUEUES if role in plan.roles for name in instances(role, plan.counts.get(role, 1))]
    devices = share_devices([name for role, name in names if role in GPU_ROLES], gpu_count())
    found += [worker_program(plan, role, name, devices.get(name)) for role, name in names]
    if "beat" in plan.roles:
        found.append(beat_program(plan))
    if plan.simulated_rater and plan.address:
        found.append(rater_program(plan))
    return found


def instances(role: str, count: int) -> list[str]:
    """explorer, explorer-2, explorer-3 ..."""
    return [role if number == 1 else f"{role}-{number}" for number in range(1, count + 1)]


def service_program(name: str, server: PostgresServer | ValkeyServer) -> Program:
    def prepare() -> tuple[list[str], dict]:
        server.ensure()
        server.clear_leftovers()
        command, process = server.command()
        return command, {"cwd": "/", **process}

    return Program(
        name=name,
        stage=SERVICE_STAGE,
        prepare=prepare,
        is_ready=lambda _pid: server.is_ready(),
        stop=((server.stop_signal, 20.0),),
        death_signal=server.death_signal,
        kin=server.processes,
    )


def web_program(plan: Plan) -> Program:
    processes = str(plan.counts.get("web", WEB_PROCESSES))
    command = [sys.executable, "-m", "rftweb.server", "--host", "127.0.0.1", "--port", str(plan.port), "--workers", processes]

    def prepare() -> tuple[list[str], dict]:
        refuse_taken_port(plan.port)
        return command, {}

    return Program(
        name="web",
        stage=WORK_STAGE,
        prepare=prepare,
        is_ready=lambda _pid: answers_http(plan.port),
        stop=((signal.SIGTERM, 10.0),),
    )


def worker_program(plan: Plan, role: str, name: str, device: int | None) -> Program:
    ready = plan.var / "run" / "ready" / name
    pool, size = POOLS.get(role, ONE_CHILD)
    command = [sys.executable, "-m", "celery", "-q", "-A", "rftweb", "worker", "-P", pool, "-c", str(size),
               "-Q", ",".join(QUEUES[role]), "-n", f"{name}@%h", "-l", "INFO", "--include", "rftweb.supervisor.announce",
               "--without-gossip", "--without-mingle", "--without-heartbeat"]  # fmt: skip

    def prepare() -> tuple[list[str], dict]:
        ready.parent.mkdir(parents=True, exist_ok=True)
        ready.unlink(missing_ok=True)
        return command, {}

    environment = {"RFTWEB_READY_FILE": str(ready)}
    if role in GPU_ROLES and "OMP_NUM_THREADS" not in os.environ:
        # Engine and trainer compute at the same time; torch would give every core to each.
        cores = os.cpu_count() or 2
        environment["OMP_NUM_THREADS"] = str(max(1, cores // 2))
        if "RFTWEB_TURN_THREADS" not in os.environ:
            environment["RFTWEB_TURN_THREADS"] = str(cores)  # but for runs where they take turns
    if device is not None:
        environment["CUDA_VISIBLE_DEVICES"] = str(device)
    return Program(
        name=name,
        stage=WORK_STAGE,
        prepare=prepare,
        is_ready=lambda pid: ready.exists() and ready.read_text() == str(pid),
        stop=WORKER_STOP,
        environment=environment,
    )


def rater_program(plan: Plan) -> Program:
    ready = plan.var / "run" / "ready" / "rater"
    command = [sys.executable, str(MANAGE), "simulated_rater", "--url", plan.address]

    def prepare() -> tuple[list[str], dict]:
        ready.parent.mkdir(parents=True, exist_ok=True)
        ready.unlink(missing_ok=True)
        return command, {}

    return Program(
        name="rater",
        stage=BEAT_STAGE,
        prepare=prepare,
        is_ready=lambda pid: ready.exists() and ready.read_text() == str(pid),
        stop=((signal.SIGTERM, 5.0),),
        environment={"RFTWEB_READY_FILE": str(ready), "RFTWEB_ROLE": "rater"},
    )


def beat_program(plan: Plan) -> Program:
    """Beat keeps its schedule in memory (workers.clock): there is nothing to remember."""
    pid_file = plan.var / "run" / "beat.pid"
    command = [sys.executable, "-m", "celery", "-q", "-A", "rftweb", "beat", "-l", "INFO",
               "--pidfile", str(pid_file)]  # fmt: skip

    def prepare() -> tuple[list[str], dict]:
        pid_file.unlink(missing_ok=True)  # a killed beat leaves it, and the next would refuse to start
        return command, {}

    return Program(
        name="beat",
        stage=BEAT_STAGE,
        prepare=prepare,
        is_ready=lambda pid: pid_file.exists() and pid_file.read_text().strip() == str(pid),
        stop=((signal.SIGTERM, 5.0),),
    )


def refuse_taken_port(port: int) -> None:
    """Raises CannotStart when somebody else listens on the port; a probe would take their answers for ours."""
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("127.0.0.1", port))
        except OSError as error:
            raise CannotStart(f"port {port} cannot be used ({error.strerror}): choose another with --port") from error


def answers_http(port: int) -> bool:
    """Whether the web process answers a request with anything but a server error."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", "/accounts/login/")
        return connection.getresponse().status < 500
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def gpu_count() -> int:
    """GPUs that nvidia-smi lists; 0 where the caller has chosen devices already, or there is no such tool."""
    if "CUDA_VISIBLE_DEVICES" in os.environ:
        return 0
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False, timeout=20)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return 0
    return sum(line.startswith("GPU ") for line in listed.stdout.splitlines()) if listed.returncode == 0 else 0


def share_devices(names: list[str], gpus: int) -> dict[str, int]:
    """Deal GPUs out in turn: one each while they last, then shared. With one GPU or none there is nothing to deal."""
    return {name: index % gpus for index, name in enumerate(names)} if gpus > 1 else {}
