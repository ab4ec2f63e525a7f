"""docker-compose.yml and the Dockerfile agree with the code: roles, queues, commands and variables.

The files are parsed, not run.
"""

import ast
import re
from pathlib import Path

import pytest
import yaml
from django.conf import settings

from rftweb.supervisor.roles import (
    GPU_ROLES,
    QUEUES,
    ROLES,
    Plan,
    beat_program,
    web_program,
    worker_program,
)
from tests.containers import MissingVariable, read_services

ROOT = Path(__file__).resolve().parents[2]
CONTAINER_NAMES = {
    "valkey": "redis"
}  # the service is called after the protocol, as its users know it
TEXT = (ROOT / "docker-compose.yml").read_text()
SERVICES = yaml.safe_load(TEXT)["services"]
OURS = [name for name in SERVICES if name not in ("postgres", "redis")]


def variables_settings_know() -> set[str]:
    """Return every NAME in `environment.reader("NAME", ...)` of settings.py, and its NAME_FILE."""
    tree = ast.parse((ROOT / "rftweb" / "settings.py").read_text())
    calls = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
    )
    readers = (call for call in calls if getattr(call.func.value, "id", "") == "environment")
    names = {
        reader.args[0].value
        for reader in readers
        if reader.args and isinstance(reader.args[0], ast.Constant)
    }
    return names | {f"{name}_FILE" for name in names} | {"RFTWEB_SECRET_KEY"}


def flags(command: list[str]) -> list[str]:
    """Return a command without interpreter, addresses and files, which depend on the machine."""
    differing = {"--host", "--port", "--pidfile"}
    kept = [
        word
        for index, word in enumerate(command[1:], start=1)
        if command[index - 1] not in differing
    ]
    return [word for word in kept if word not in differing]


def test_services_are_the_supervisors_roles_and_migrate():
    assert set(SERVICES) == {CONTAINER_NAMES.get(role, role) for role in ROLES} | {"migrate"}


@pytest.mark.parametrize("role", QUEUES)
def test_a_worker_has_the_supervisors_command(role, tmp_path):
    command, _ = worker_program(Plan(var=tmp_path), role, role, None).prepare()
    assert flags(SERVICES[role]["command"]) == flags(command)


@pytest.mark.parametrize(("role", "program"), [("web", web_program), ("beat", beat_program)])
def test_web_and_beat_have_the_supervisors_command(role, program, tmp_path):
    (tmp_path / "run").mkdir()
    command, _ = program(Plan(var=tmp_path, port=0)).prepare()
    assert flags(SERVICES[role]["command"]) == flags(command)


def test_every_queue_has_a_worker_and_every_worker_queue_is_known():
    served = {queue for queues in QUEUES.values() for queue in queues}
    assert served == {queue.name for queue in settings.CELERY_TASK_QUEUES}


def test_every_routed_job_goes_to_a_served_queue():
    served = {queue for queues in QUEUES.values() for queue in queues}
    assert {route["queue"] for route in settings.CELERY_TASK_ROUTES.values()} <= served


@pytest.mark.parametrize("name", OURS)
def test_every_variable_is_read_by_the_code(name):
    read_by_announce = {"RFTWEB_READY_FILE"}
    assert set(SERVICES[name]["environment"]) <= variables_settings_know() | read_by_announce


@pytest.mark.parametrize("name", OURS)
def test_every_service_has_database_redis_and_secret_key_variables(name):
    assert {"DATABASE_URL", "REDIS_URL", "RFTWEB_SECRET_KEY"} <= set(SERVICES[name]["environment"])


def test_no_secret_has_a_default():
    uses = re.findall(r"\$\{(\w*(?:PASSWORD|SECRET)\w*)(.*?)\}", TEXT)
    assert uses
    assert {rest.split(" ")[0] for _, rest in uses} == {":?set"}


@pytest.mark.parametrize("name", [name for name in SERVICES if name != "migrate"])
def test_every_permanent_service_has_a_health_check(name):
    assert SERVICES[name]["healthcheck"]["test"]


@pytest.mark.parametrize("name", SERVICES)
def test_ports_are_published_only_on_loopback(name):
    assert all(port.startswith("127.0.0.1:") for port in SERVICES[name].get("ports", []))


@pytest.mark.parametrize("name", [name for name in OURS if name != "migrate"])
def test_services_start_after_the_migration(name):
    assert SERVICES[name]["depends_on"]["migrate"] == {
        "condition": "service_completed_successfully"
    }


def test_only_explorer_and_trainer_get_gpus():
    assert {name for name in SERVICES if "deploy" in SERVICES[name]} == set(GPU_ROLES)


@pytest.mark.parametrize("role", GPU_ROLES)
def test_gpu_is_chosen_by_id(role):
    (device,) = SERVICES[role]["deploy"]["resources"]["reservations"]["devices"]
    assert device["device_ids"] == [f"${{RFTWEB_{role.upper()}_GPU:-0}}"]
    assert "count" not in device


def test_every_setting_is_documented_in_the_deployment_guide():
    handbook = (ROOT / "docs" / "deploy.md").read_text()
    assert {
        name
        for name in variables_settings_know()
        if not name.endswith("_FILE") and f"`{name}`" not in handbook
    } == set()


SECRETS = dict.fromkeys(["POSTGRES_PASSWORD", "REDIS_PASSWORD", "RFTWEB_SECRET_KEY"], "x")


def test_volumes_are_declared():
    services = read_services(SECRETS).values()
    used = {mount.split(":")[0] for service in services for mount in service.get("volumes", [])}
    assert used == set(yaml.safe_load(TEXT)["volumes"])


@pytest.mark.parametrize("name", OURS)
def test_every_service_mounts_the_plugin_folder_read_only(name):
    service = read_services({**SECRETS, "RFTWEB_PLUGINS": "/opt/plugins"})[name]
    place = service["environment"]["RFTWEB_PLUGINS"]
    assert f"/opt/plugins:{place}:ro" in service["volumes"]


def test_images_are_targets_of_the_dockerfile_and_web_has_no_torch():
    stages = re.findall(r"^FROM \S+ AS (\w+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    built = {service["build"]["target"] for service in SERVICES.values() if "build" in service}
    assert built == {"web", "worker"} <= set(stages)
    before_torch = (ROOT / "Dockerfile").read_text().split("AS torch")[0]
    assert "AS web" in before_torch
    assert before_torch.count("scripts/setup --venv") == before_torch.count("--no-torch") == 1


def test_every_file_copied_by_the_dockerfile_exists():
    sources = re.findall(r"^COPY (?!--from)(\S+) ", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert sources
    assert [source for source in sources if not (ROOT / source).exists()] == []


def test_build_context_contains_exactly_what_the_dockerfile_copies():
    """Keep the machine's own files (data, secrets, environments) out of the build context."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    allowed = {rule[1:] for rule in rules if rule.startswith("!")}
    copied = re.findall(r"^COPY (?!--from)(\S+) ", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert allowed == set(copied)


@pytest.mark.parametrize("name", ["POSTGRES_PASSWORD", "REDIS_PASSWORD", "RFTWEB_SECRET_KEY"])
def test_missing_secret_is_reported_by_name(name):
    read_services(SECRETS)
    with pytest.raises(MissingVariable, match=name):
        read_services({**SECRETS, name: ""})


def test_readiness_files_are_in_memory_and_disappear_after_a_restart():
    """Check this because a restarted container keeps its files, but not what is in memory."""
    for name in OURS:
        in_memory = [f"{place}/" for place in SERVICES[name].get("tmpfs", [])]
        words = [*SERVICES[name]["command"], *SERVICES[name]["environment"].values()]
        marks = [word for word in words if word.endswith((".pid", "/ready"))]
        assert all(mark.startswith(tuple(in_memory)) for mark in marks), name
