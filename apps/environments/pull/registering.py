"""How an environment that we call comes to be known, and whether it answers."""

import asyncio
import importlib.util
import time
from contextlib import suppress

from django.core.exceptions import ValidationError
from django.db import transaction

from apps.accounts.models import AuditEntry, Project, User
from apps.environments.models import Environment
from apps.environments.pull import verifiers
from apps.environments.pull.addresses import parsed, resolved
from apps.environments.pull.errors import BadAddress, CallFailed
from apps.environments.pull.gymnasium import RANGES, Gymnasium, family, made
from apps.environments.pull.openenv import OpenEnvSession
from apps.environments.pull.sessions import SESSIONS

Kind = Environment.Kind
SCHEMES = {Kind.HTTP: ("http", "https"), Kind.OPENENV: ("http", "https", "ws", "wss")}
MISSING = "gymnasium is not installed here: scripts/setup --with gymnasium"


def register(project: Project, name: str, kind: str, address: str, created_by: User | None = None, **fields: object) -> Environment:
    """A new environment that is called at this address; of Gymnasium's and verifiers', the address is its name there.

    `fields` are the model's; what is known of Gymnasium's goes before the model's defaults. Raises ValidationError, by field.
    """
    environment = Environment(
        project=project, name=name, kind=kind, address=address, created_by=created_by, **{**known_of(kind, address), **fields}
    )
    require_callable(environment)
    environment.full_clean(exclude=["open_until"])
    with transaction.atomic():
        environment.save()
        AuditEntry.record("environment registered", f"environment {project.slug}/{name}", created_by, project, kind=kind)
    return environment


def known_of(kind: str, address: str) -> dict:
    """What one action can earn, for those of Gymnasium's where it is known here."""
    reward_range = RANGES.get(family(address)) if kind == Kind.GYMNASIUM else None
    return dict(zip(("reward_low", "reward_high"), map(float, reward_range), strict=True)) if reward_range else {}


def require_callable(environment: Environment) -> None:
    """Raises ValidationError naming the field, when this kind of environment cannot be called at this address."""
    if environment.kind == Kind.GYMNASIUM:
        _require_in_gymnasium(environment)
    elif environment.kind == Kind.VERIFIERS:
        verifiers.require_allowed(environment)
    elif environment.kind in SESSIONS:
        _require_allowed(environment)
    elif environment.address:
        raise ValidationError({"address": f"an environment of kind {environment.kind} is not called: leave it empty"})


def _require_allowed(environment: Environment) -> None:
    try:
        address = parsed(environment.address)
        schemes = SCHEMES[environment.kind]
        if address.scheme not in schemes:
            raise BadAddress(f"must begin with {', '.join(f'{scheme}://' for scheme in schemes)}")
        asyncio.run(resolved(address))
    except (BadAddress, CallFailed) as why:
        raise ValidationError({"address": str(why)}) from None


def _require_in_gymnasium(environment: Environment) -> None:
    if importlib.util.find_spec("gymnasium") is None:
        raise ValidationError({"kind": MISSING})
    try:
        made(environment.address, environment.options).close()
    except ValueError as why:
        raise ValidationError({"address": str(why)}) from None


def check(environment: Environment) -> str:
    """Begin an episode there and give it back; the first observation and how long it took. An OpenEnv server's schemas are kept.

    Raises CallFailed with what is wrong.
    """
    began = time.monotonic()
    if environment.kind == Kind.GYMNASIUM:
        said = _tried_here(environment)
    elif environment.kind == Kind.VERIFIERS:
        said = verifiers.tried(environment)
    elif environment.kind in SESSIONS:
        said, schemas = asyncio.run(_tried(environment))
        Environment.objects.filter(pk=environment.pk).update(**schemas)
    else:
        raise CallFailed(f"an environment of kind {environment.kind} is not called")
    return f"answered in {1000 * (time.monotonic() - began):.0f} ms: {str(said)[:200]!r}"


def _tried_here(environment: Environment) -> str:
    played = Gymnasium(environment.address)
    try:
        return played.reset(0, environment.options)
    except Exception as error:  # whatever it raises is what is wrong with it
        raise CallFailed(f"{type(error).__name__}: {error}") from None


async def _tried(environment: Environment) -> tuple[str | list, dict]:
    """The first observation, and the schemas that the service tells of itself."""
    session = SESSIONS[environment.kind](environment)
    try:
        async with asyncio.timeout(environment.turn_s):
            try:
                said = (await session.begin(0, 0, environment.options)).observation
                return said, await _schemas(session) if isinstance(session, OpenEnvSession) else {}
            finally:
                with suppress(CallFailed):
                    await session.close()
    except TimeoutError:
        raise CallFailed(f"took longer than {environment.turn_s:g} s") from None
    except BadAddress as why:
        raise CallFailed(str(why)) from None


async def _schemas(session: OpenEnvSession) -> dict:
    """Asked for while an episode is under way, whose state must be told too."""
    schemas = await session.schema()
    await session.state()
    return {"action_schema": schemas["action"], "observation_schema": schemas["observation"]}
