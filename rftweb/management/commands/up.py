"""Start everything: embedded services where no addresses are set, web, workers and beat, under one supervisor."""

import asyncio
import os
import stat
import time
from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from rftweb.supervisor import record
from rftweb.supervisor.output import Output
from rftweb.supervisor.roles import QUEUES, ROLES, SERVICES, WEB_PROCESSES, Plan, programs
from rftweb.supervisor.watch import Watch

# Roles of a machine that fetches weights. Others read policies and versions by the paths in the
# database, or write new ones there.
WITHOUT_SHARED_FOLDER = ("explorer", *SERVICES)


class Command(BaseCommand):
    help = __doc__
    requires_system_checks = ()

    def add_arguments(self, parser) -> None:
        parser.add_argument("--port", type=int, default=8000, help="of the web process, on 127.0.0.1 (default 8000)")
        parser.add_argument("--only", metavar="ROLE,...", help="start only these of: " + ", ".join(ROLES))
        parser.add_argument("--no-embedded", action="store_true", help="start no database and no broker of our own")
        parser.add_argument("--no-migrate", action="store_true", help="leave the database schema as it is")
        parser.add_argument("--quiet", action="store_true", help="show only warnings and errors; var/log has everything")
        parser.add_argument("--simulated-rater", action="store_true", help="also rate where a run's switch lets a program do so")
        parser.add_argument("--status", action="store_true", help="say what runs, and end")
        parser.add_argument("--web", type=int, default=WEB_PROCESSES, metavar="N",
                            help=f"how many processes answer pages (default {WEB_PROCESSES})")  # fmt: skip
        for role in QUEUES:
            parser.add_argument(f"--{role}s", type=int, default=1, metavar="N", help=f"how many {role}s (default 1)")

    def handle(self, **options) -> None:
        if options["status"]:
            self._show_status()
            return
        plan = plan_of(options)
        needs_schema = any(role not in SERVICES for role in plan.roles)
        for folder in (plan.var / "log", settings.WEIGHTS_ROOT, settings.IMPORTS_ROOT):
            close_to_others(folder)
        output = Output(plan.var / "log", options["quiet"])
        watch = Watch(plan.var, programs(plan), output, plan.address, migrate=needs_schema and not options["no_migrate"])
        try:
            code = asyncio.run(watch.run())
        except record.AlreadyRunning as error:
            raise CommandError(error) from error
        raise SystemExit(code)

    def _show_status(self) -> None:
        found = record.read(settings.VAR)
        if not found or not found["alive"]:
            raise CommandError(f"no supervisor runs on {settings.VAR}")
        minutes = (time.time() - found["started_at"]) / 60
        self.stdout.write(f"{found['state']} for {minutes:.0f} min, process {found['pid']}, {found['address']}")
        for name, child in found["children"].items():
            self.stdout.write(f"{name:>10}  {child['state']:<10}  process {child['pid'] or '-':<8}  {child['restarts']} restarts")


def close_to_others(folder: Path) -> None:
    """Make the folder if it is missing, and take other accounts' access to it away.

    Logs tell of people, and weights are worth money. A folder that belongs to somebody else, such
    as a shared disk of several machines, keeps the mode that they gave it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    status = folder.stat()
    if status.st_uid == os.geteuid():
        folder.chmod(stat.S_IMODE(status.st_mode) & ~stat.S_IRWXO)


def plan_of(options: dict) -> Plan:
    """The plan that the command line and the environment ask for. Embedded services are for addresses left unset."""
    wanted = options["only"].split(",") if options["only"] else list(ROLES)
    if unknown := set(wanted) - set(ROLES):
        raise CommandError(f"unknown role {', '.join(sorted(unknown))}; there are: {', '.join(ROLES)}")
    require_shared_folder(set(wanted))
    services = set() if options["no_embedded"] else embedded_services()
    only_services = set(wanted) <= set(SERVICES)
    roles = [role for role in ROLES if (role in services and (not only_services or role in wanted)) or
             (role in wanted and role not in SERVICES)]  # fmt: skip
    if not roles:
        raise CommandError("nothing to start: DATABASE_URL and REDIS_URL name servers elsewhere")
    counts = {"web": options["web"], **{role: options[f"{role}s"] for role in QUEUES}}
    return Plan(settings.VAR, tuple(roles), options["port"], counts, options["simulated_rater"])


def require_shared_folder(wanted: set[str]) -> None:
    """Refuse roles that read or write the shared folder, on a machine that fetches weights."""
    if settings.WEIGHTS_URL and (others := wanted - set(WITHOUT_SHARED_FOLDER)):
        raise CommandError(
            f"RFTWEB_WEIGHTS_URL is set: this machine fetches weights, and {', '.join(sorted(others))}"
            " need the publisher's folder; start `up --only explorer` here"
        )


def embedded_services() -> set[str]:
    """Services that nobody has given an address for."""
    addresses = {"postgres": "DATABASE_URL", "valkey": "REDIS_URL"}
    return {name for name, variable in addresses.items() if not (os.environ.get(variable) or os.environ.get(f"{variable}_FILE"))}
