"""Kinds of plugins that are one function with typed options, such as advantages and losses."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from pydantic import BaseModel

from apps.plugins.contract import (
    PluginOptions,
    problems_of_call,
    problems_of_head,
    problems_of_options,
    validated,
)
from apps.plugins.guarded_calls import guarded
from apps.plugins.kinds import Kind, Refused


@dataclass(frozen=True)
class Part:
    """A plugin's function under the plugin's name; `call` takes the typed options last."""

    name: str
    summary: str
    call: Callable[..., Any]
    options: type[BaseModel]
    version: int
    module: ModuleType

    def read_options(self, values: Mapping[str, Any]) -> Any:
        """Return the typed options. Raises ValidationError."""
        return validated(self.options, values)


def _no_more(module: ModuleType) -> Iterator[str]:
    return iter(())


def kind_of_parts(
    name: str,
    group: str,
    function: str,
    arguments: tuple[str, ...],
    problems: Callable[[ModuleType], Iterator[str]] = _no_more,
    guard: Callable[[Callable[..., Any]], Callable[..., Any]] = guarded,
) -> Kind:
    """Return a kind without built-in parts, whose plugins define `function(*arguments)`.

    `problems` yields what else is wrong with a plugin's module; `guard` wraps its function.
    """

    def read(module: ModuleType, plugin: str) -> Part:
        refusals = [
            *problems_of_head(module),
            *problems_of_options(module, PluginOptions),
            *problems_of_call(module, function, arguments),
            *problems(module),
        ]
        if refusals:
            raise Refused("; ".join(refusals))
        return Part(
            name=plugin,
            summary=(module.__doc__ or "").strip().splitlines()[0],
            call=guard(getattr(module, function)),
            options=getattr(module, "Options", PluginOptions),
            version=getattr(module, "VERSION", 1),
            module=module,
        )

    return Kind(
        name=name,
        group=group,
        functions=(function,),
        built_in=dict,
        read=read,
        version=lambda part: part.version,
    )
