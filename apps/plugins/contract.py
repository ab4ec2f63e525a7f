"""Checks that all kinds of plugins share; each yields what is wrong, in words for the author."""

import inspect
import json
import math
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any, TypeGuard

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from apps.plugins.guarded_calls import plugin_errors


class PluginOptions(BaseModel):
    """Base of a plugin's options: no unknown fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def problems_of_head(module: ModuleType) -> Iterator[str]:
    """Check docstring and VERSION."""
    if not (module.__doc__ or "").strip():
        yield "has no docstring: its first line is shown in lists"
    version = getattr(module, "VERSION", 1)
    if type(version) is not int or not 1 <= version <= 32_767:
        yield f"VERSION is {version!r}: it must be a whole number from 1 to 32,767"


def problems_of_options(module: ModuleType, base: type[BaseModel]) -> Iterator[str]:
    """Check that `Options` is a schema that forms, files and programs can be generated from."""
    options = getattr(module, "Options", base)
    if not (isinstance(options, type) and issubclass(options, base)):
        yield f"Options must be a subclass of {base.__name__}"
        return
    if options.model_config.get("extra") != "forbid":
        yield f'Options allows unknown fields: keep extra="forbid" of {base.__name__}'
    if silent := [name for name, field in options.model_fields.items() if not field.description]:
        yield f"Options.{silent[0]} has no description"
    try:
        json.dumps(options.model_json_schema())
        for name, field in options.model_fields.items():
            if not field.is_required():
                _require_json(name, field.get_default(call_default_factory=True))
    except Exception as error:  # whatever pydantic says of a schema that others wrote
        yield f"Options cannot be described by a JSON schema: {error}"


def _require_json(name: str, value: Any) -> None:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the default of {name} is not valid JSON: {error}") from None


def problems_of_call(module: ModuleType, name: str, arguments: tuple[str, ...]) -> Iterator[str]:
    """Check that the function exists and takes this number of positional arguments."""
    call = getattr(module, name, None)
    signature_text = f"{name}({', '.join(arguments)})"
    if not callable(call):
        yield f"defines no function {signature_text}"
        return
    try:
        inspect.signature(call).bind(*arguments)
    except TypeError as error:
        yield f"cannot be called as {signature_text}: {error}"
    if inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call):
        yield f"{name} is asynchronous: write `def`, not `async def`"


def is_number(value: Any) -> TypeGuard[float]:
    return type(value) in (int, float) and math.isfinite(value)


def validated(options: type[BaseModel], values: Mapping[str, Any]) -> Any:
    """Return the options. Raises ValidationError, for a validator that breaks, too."""
    try:
        with plugin_errors():
            return options.model_validate(dict(values))
    except ValidationError:
        raise
    except Exception as error:  # a validator may be anybody's code: its options are refused
        words = f"could not be checked: {type(error).__name__}: {error}".replace("{", "(")
        problem = PydanticCustomError("validator_failed", words.replace("}", ")"))
        details: list[InitErrorDetails] = [{"type": problem, "loc": (), "input": dict(values)}]
        raise ValidationError.from_exception_data(options.__name__, details) from error
