"""Register and check environments that we call."""

import asyncio
import importlib.util
import time
from contextlib import suppress

from django.core.exceptions import ValidationError
from django.db import transaction

from apps.accounts.models import AuditEntry, Project, User
from apps.environments.models import Environment
from apps.environments.pull import verifiers
from apps.environments.pull.addresses import parse_address, resolved
from apps.environments.pull.errors import BadAddress, CallFailed
from apps.environments.pull.gymnasium import RANGES, Gymnasium, family, make_gymnasium
from apps.environments.pull.openenv import OpenEnvSession
from apps.environments.pull.sessions import SESSIONS

Kind = Environment.Kind
SCHEMES = {Kind.HTTP: ("http", "https"), Kind.OPENENV: ("http", "https", "ws", "wss")}
MISSING = "gymnasium is not installed here: run scripts/setup --with gymnasium"


def register_service(
    project: Project,
    name: str,
    kind: str,
    address: str,
    created_by: User | None = None,
    **fields: object,
) -> Environment:
    """Create an environment that is called at this address.

    For Gymnasium and verifiers the address is the environment's name there. `fields` are the
    model's; known values for Gymnasium's environments override the model's defaults. Raises
    ValidationError, by field.
    """
    environment = Environment(
        project=project,
        name=name,
        kind=kind,
        address=address,
        created_by=created_by,
        **{**find_known_range(kind, address), **fields},
    )
    require_callable(environment)
    environment.full_clean(exclude=["open_until"])
    with transaction.atomic():
        environment.save()
        AuditEntry.record(
            "environment registered",
            f"environment {project.slug}/{name}",
            created_by,
            project,
            kind=kind,
        )
    return environment


def find_known_range(kind: str, address: str) -> dict:
    """Return the reward range of one action, if it is known for Gymnasium's environment."""
    reward_range = RANGES.get(family(address)) if kind == Kind.GYMNASIUM else None
    return (
        dict(zip(("reward_low", "reward_high"), map(float, reward_range), strict=True))
        if reward_range
        else {}
    )


def require_callable(environment: Environment) -> None:
    """Raise ValidationError by field when this kind cannot be called at this address."""
    if environment.kind == Kind.GYMNASIUM:
        _require_in_gymnasium(environment)
    elif environment.kind == Kind.VERIFIERS:
        verifiers.require_allowed_taskset(environment)
    elif environment.kind in SESSIONS:
        _require_allowed(environment)
    elif environment.address:
        raise ValidationError(
            {
                "address": (
                    f"rftweb does not call environments of kind {environment.kind}: leave it empty"
                )
            }
        )


def _require_allowed(environment: Environment) -> None:
    try:
        address = parse_address(environment.address)
        schemes = SCHEMES[Kind(environment.kind)]
        if address.scheme not in schemes:
            raise BadAddress(f"must begin with {', '.join(f'{scheme}://' for scheme in schemes)}")
        asyncio.run(resolved(address))
    except (BadAddress, CallFailed) as why:
        raise ValidationError({"address": str(why)}) from None


def _require_in_gymnasium(environment: Environment) -> None:
    if importlib.util.find_spec("gymnasium") is None:
        raise ValidationError({"kind": MISSING})
    try:
        make_gymnasium(environment.address, environment.options).close()
    except ValueError as why:
        raise ValidationError({"address": str(why)}) from None


def check_service(environment: Environment) -> str:
    """Begin an episode and close it; return the first observation and the seconds it took.

    An OpenEnv server's schemas are stored. Raises CallFailed with the problem.
    """
    began = time.monotonic()
    observation: str | list
    if environment.kind == Kind.GYMNASIUM:
        observation = _reset_gymnasium(environment)
    elif environment.kind == Kind.VERIFIERS:
        observation = verifiers.try_episode(environment)
    elif environment.kind in SESSIONS:
        observation, schemas = asyncio.run(_call_service(environment))
        Environment.objects.filter(pk=environment.pk).update(**schemas)
    else:
        raise CallFailed(f"rftweb does not call environments of kind {environment.kind}")
    return f"responded in {1000 * (time.monotonic() - began):.0f} ms: {str(observation)[:200]!r}"


def _reset_gymnasium(environment: Environment) -> str:
    played = Gymnasium(environment.address)
    try:
        return played.reset(0, environment.options)
    except Exception as error:  # any error is reported as the problem
        raise CallFailed(f"{type(error).__name__}: {error}") from None


async def _call_service(environment: Environment) -> tuple[str | list, dict]:
    """Return the first observation, and the schemas that the service reports."""
    session = SESSIONS[environment.kind](environment)
    try:
        async with asyncio.timeout(environment.turn_s):
            try:
                observation = (await session.begin(0, 0, environment.options)).observation
                return observation, await _schemas(session) if isinstance(
                    session, OpenEnvSession
                ) else {}
            finally:
                with suppress(CallFailed):
                    await session.close()
    except TimeoutError:
        raise CallFailed(f"took longer than {environment.turn_s:g} s") from None
    except BadAddress as why:
        raise CallFailed(str(why)) from None


async def _schemas(session: OpenEnvSession) -> dict:
    """Return the schemas, requested during an episode; its state must be available too."""
    schemas = await session.schema()
    await session.state()
    return {"action_schema": schemas["action"], "observation_schema": schemas["observation"]}
