"""Roles of an installation as programs: services first, then web and workers, beat last."""

import http.client
import os
import signal
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from django.conf import settings

from rftweb.embedded import PostgresServer, ValkeyServer
from rftweb.places import PROGRAM
from rftweb.supervisor.devices import Pool, assign_devices
from rftweb.supervisor.program import (
    BEAT_STAGE,
    SERVICE_STAGE,
    WORK_STAGE,
    WORKER_STOP,
    CannotStart,
    Program,
)

# Queues of each worker role; docker-compose.yml has the same (tests/infra/test_compose.py).
QUEUES = {
    "explorer": ("explore",),
    "scorer": ("score",),
    "refiner": ("refine",),
    "trainer": ("train",),
    "control": ("control",),
}
# Engines and trainers run in one pool child. Control jobs are short and many: one process with a
# thread for each.
POOLS = {"control": ("threads", 14)}
ONE_CHILD = ("prefork", 1)
SERVICES = ("postgres", "valkey")
ROLES = (*SERVICES, "web", *QUEUES, "beat")
GPU_ROLES = ("explorer", "trainer")
COMPUTING_ROLES = (*GPU_ROLES, "scorer")  # they run models at the same time
WEB_PROCESSES = 2  # one Python process uses one core only


@dataclass(frozen=True)
class Plan:
    """The roles to run.

    `roles`: names from ROLES. `counts`: instances of a worker role, default one, and web processes,
    default WEB_PROCESSES. `simulated_rater`: also start the simulated rater for runs that allow it
    (as the demo does).
    """

    var: Path
    roles: tuple[str, ...] = ROLES
    port: int = 8000
    counts: Mapping[str, int] = field(default_factory=dict)
    simulated_rater: bool = False

    @property
    def address(self) -> str:
        """Return the URL of the pages; empty without a web process."""
        return f"http://127.0.0.1:{self.port}" if "web" in self.roles else ""


def programs(plan: Plan) -> list[Program]:
    """Return one program per instance of each role in the plan, in the order of starting."""
    in_order = []
    if "postgres" in plan.roles:
        in_order.append(service_program("postgres", PostgresServer(plan.var)))
    if "valkey" in plan.roles:
        in_order.append(service_program("valkey", ValkeyServer(plan.var)))
    if "web" in plan.roles:
        in_order.append(web_program(plan))
    names = [
        (role, name)
        for role in QUEUES
        if role in plan.roles
        for name in instances(role, plan.counts.get(role, 1))
    ]
    pinned = [(role, name) for role, name in names if role in GPU_ROLES]
    chosen = {"explorer": settings.EXPLORER_GPUS, "trainer": settings.TRAINER_GPUS}
    devices = assign_devices(pinned, chosen, Pool.here()) if pinned else {}
    in_order += [worker_program(plan, role, name, devices.get(name)) for role, name in names]
    if "beat" in plan.roles:
        in_order.append(beat_program(plan))
    if plan.simulated_rater and plan.address:
        in_order.append(rater_program(plan))
    return in_order


def instances(role: str, count: int) -> list[str]:
    """Return the names of instances: explorer, explorer-2, explorer-3 ..."""
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
    command = [
        sys.executable,
        "-m",
        "rftweb.server",
        "--host",
        "127.0.0.1",
        "--port",
        str(plan.port),
        "--workers",
        processes,
    ]

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


def worker_program(plan: Plan, role: str, name: str, devices: str | None) -> Program:
    ready = plan.var / "run" / "ready" / name
    pool, size = POOLS.get(role, ONE_CHILD)
    command = [
        sys.executable,
        "-m",
        "celery",
        "-q",
        "-A",
        "rftweb",
        "worker",
        "-P",
        pool,
        "-c",
        str(size),
        "-Q",
        ",".join(QUEUES[role]),
        "-n",
        f"{name}@%h",
        "-l",
        "INFO",
        "--include",
        "rftweb.supervisor.announce",
        "--without-gossip",
        "--without-mingle",
        "--without-heartbeat",
    ]

    def prepare() -> tuple[list[str], dict]:
        ready.parent.mkdir(parents=True, exist_ok=True)
        ready.unlink(missing_ok=True)
        return command, {}

    environment = {"RFTWEB_READY_FILE": str(ready)}
    if role in COMPUTING_ROLES and "OMP_NUM_THREADS" not in os.environ:
        # By default torch would give every core to each. Threads that wait for a core that another
        # process uses then keep their own core busy: twice the processor time for the same work.
        cores = os.cpu_count() or 2
        environment["OMP_NUM_THREADS"] = str(max(1, cores // 2))
        if "RFTWEB_TURN_THREADS" not in os.environ:
            environment["RFTWEB_TURN_THREADS"] = str(cores)  # but for runs where they take turns
    if devices is not None:
        environment["CUDA_VISIBLE_DEVICES"] = devices
        # Or an index would mean the fastest GPU first, and not what nvidia-smi counts.
        environment["CUDA_DEVICE_ORDER"] = os.environ.get("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
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
    command = [*PROGRAM, "simulated_rater", "--url", plan.address]

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
    """Return the program of beat, which keeps its schedule in memory (workers.beat)."""
    pid_file = plan.var / "run" / "beat.pid"
    command = [
        sys.executable,
        "-m",
        "celery",
        "-q",
        "-A",
        "rftweb",
        "beat",
        "-l",
        "INFO",
        "--pidfile",
        str(pid_file),
    ]

    def prepare() -> tuple[list[str], dict]:
        pid_file.unlink(
            missing_ok=True
        )  # a killed beat leaves its pid file, and the next would refuse to start
        return command, {}

    return Program(
        name="beat",
        stage=BEAT_STAGE,
        prepare=prepare,
        is_ready=lambda pid: pid_file.exists() and pid_file.read_text().strip() == str(pid),
        stop=((signal.SIGTERM, 5.0),),
    )


def refuse_taken_port(port: int) -> None:
    """Raise CannotStart if another process listens on the port.

    A probe would take its responses for ours.
    """
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("127.0.0.1", port))
        except OSError as error:
            raise CannotStart(
                f"port {port} cannot be used ({error.strerror}): choose another with --port"
            ) from error


def answers_http(port: int) -> bool:
    """Tell whether the web process answers a request with anything but a server error."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", "/accounts/login/")
        return connection.getresponse().status < 500
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
