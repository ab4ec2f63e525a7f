"""Start web, workers and beat, and embedded services without a URL, under one supervisor."""

import asyncio
import os
import stat
import time
from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from rftweb.number_arguments import PORTS, whole_number
from rftweb.supervisor import record
from rftweb.supervisor.output import Output
from rftweb.supervisor.program import CannotStart
from rftweb.supervisor.roles import QUEUES, ROLES, SERVICES, WEB_PROCESSES, Plan, programs
from rftweb.supervisor.watch import Watch

# Roles of a machine that downloads weights. Other roles use policies and versions by the paths in
# the database, or write new ones there.
WITHOUT_SHARED_FOLDER = ("explorer", *SERVICES)


class Command(BaseCommand):
    help = __doc__
    requires_system_checks = ()

    def add_arguments(self, parser) -> None:
        parser.add_argument(
            "--port",
            type=whole_number(*PORTS),
            default=8000,
            help="port of the web process, on 127.0.0.1 (default 8000)",
        )
        parser.add_argument(
            "--only", metavar="ROLE,...", help="start only these of: " + ", ".join(ROLES)
        )
        parser.add_argument(
            "--no-embedded",
            action="store_true",
            help="do not start the embedded database and broker",
        )
        parser.add_argument(
            "--no-migrate", action="store_true", help="do not migrate the database schema"
        )
        parser.add_argument(
            "--quiet",
            action="store_true",
            help="show only warnings and errors; var/log has everything",
        )
        parser.add_argument(
            "--simulated-rater",
            action="store_true",
            help="also rate in runs that allow a simulated rater",
        )
        parser.add_argument("--status", action="store_true", help="show what is running, and exit")
        parser.add_argument(
            "--web",
            type=int,
            default=WEB_PROCESSES,
            metavar="N",
            help=f"number of web processes (default {WEB_PROCESSES})",
        )
        for role in QUEUES:
            parser.add_argument(
                f"--{role}s",
                type=int,
                default=1,
                metavar="N",
                help=f"number of {role}s (default 1)",
            )

    def handle(self, **options) -> None:
        if options["status"]:
            self._show_status()
            return
        plan = read_plan(options)
        needs_schema = any(role not in SERVICES for role in plan.roles)
        for folder in (plan.var / "log", settings.WEIGHTS_ROOT, settings.IMPORTS_ROOT):
            close_to_others(folder)
        try:
            planned = programs(plan)
        except CannotStart as why:
            raise CommandError(str(why)) from why
        output = Output(plan.var / "log", options["quiet"])
        migrate = needs_schema and not options["no_migrate"]
        watch = Watch(plan.var, planned, output, plan.address, migrate=migrate)
        try:
            code = asyncio.run(watch.run())
        except record.AlreadyRunning as error:
            raise CommandError(error) from error
        raise SystemExit(code)

    def _show_status(self) -> None:
        supervisor = record.read_record(settings.VAR)
        if not supervisor or not supervisor["alive"]:
            raise CommandError(f"no supervisor is running on {settings.VAR}")
        minutes = (time.time() - supervisor["started_at"]) / 60
        self.stdout.write(
            f"{supervisor['state']} for {minutes:.0f} min, process {supervisor['pid']}, "
            f"{supervisor['address']}"
        )
        for name, child in supervisor["children"].items():
            self.stdout.write(
                f"{name:>10}  {child['state']:<10}  process {child['pid'] or '-':<8} "
                f" {child['restarts']} restarts"
            )


def close_to_others(folder: Path) -> None:
    """Create the folder if missing, and remove other accounts' access to it.

    Logs contain personal data, and weights are valuable. A folder of another owner, such as a
    shared disk of several machines, keeps its mode.
    """
    folder.mkdir(parents=True, exist_ok=True)
    status = folder.stat()
    if status.st_uid == os.geteuid():
        folder.chmod(stat.S_IMODE(status.st_mode) & ~stat.S_IRWXO)


def read_plan(options: dict) -> Plan:
    """Return the plan of the command line and the environment.

    Embedded services are started for URLs that are not set.
    """
    role_names = options["only"].split(",") if options["only"] else list(ROLES)
    if unknown := set(role_names) - set(ROLES):
        raise CommandError(
            f"unknown role {', '.join(sorted(unknown))}; there are: {', '.join(ROLES)}"
        )
    require_shared_folder(set(role_names))
    services = set() if options["no_embedded"] else embedded_services()
    only_services = set(role_names) <= set(SERVICES)
    roles = [
        role
        for role in ROLES
        if (role in services and (not only_services or role in role_names))
        or (role in role_names and role not in SERVICES)
    ]
    if not roles:
        raise CommandError("nothing to start: DATABASE_URL and REDIS_URL point to other servers")
    counts = {"web": options["web"], **{role: options[f"{role}s"] for role in QUEUES}}
    return Plan(settings.VAR, tuple(roles), options["port"], counts, options["simulated_rater"])


def require_shared_folder(roles: set[str]) -> None:
    """Refuse roles that need the shared folder on a machine that downloads weights."""
    if settings.WEIGHTS_URL and (unsupported := roles - set(WITHOUT_SHARED_FOLDER)):
        raise CommandError(
            "RFTWEB_WEIGHTS_URL is set: this machine fetches weights, but "
            f"{', '.join(sorted(unsupported))} need the publisher's folder; start "
            "`up --only explorer` here"
        )


def embedded_services() -> set[str]:
    """Return the services whose URL is not set."""
    addresses = {"postgres": "DATABASE_URL", "valkey": "REDIS_URL"}
    return {
        name
        for name, variable in addresses.items()
        if not (os.environ.get(variable) or os.environ.get(f"{variable}_FILE"))
    }
