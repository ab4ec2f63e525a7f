"""Single calls over HTTP: each with its own session and episode, closed before the answer."""

import asyncio
from collections.abc import Awaitable, Callable

from apps.environments.openenv import rpc, sessions
from apps.environments.openenv.access import OpenEnvClient
from apps.environments.openenv.plays import Play, Unplayable, in_a_thread, why_not_served
from apps.environments.openenv.socket import DEAD_DATABASE

OVER = "a single call over HTTP"
NO_SESSIONS = "A session needs a connection: open /ws or /mcp as a WebSocket."
Answer = tuple[int, dict]


async def reset(guest: OpenEnvClient, data: dict) -> Answer:
    return await _respond(guest, lambda play: play.reset(data))


async def step(guest: OpenEnvClient, action: dict) -> Answer:
    """Do the first step of a new episode."""

    async def reset_and_step(play: Play) -> dict:
        await play.reset({})
        return await play.step(action)

    return await _respond(guest, reset_and_step)


async def answer_rpc_call(guest: OpenEnvClient, body: bytes) -> Answer:
    """Answer a JSON-RPC request; errors too have status 200."""

    async def answer_request(request: rpc.Request) -> dict:
        match request.method:
            case "tools/list":
                return {"tools": rpc.list_tools(guest.environment.action_schema)}
            case "tools/call":
                return await _call_tool(guest, request.params)
            case "openenv/session/create":
                raise rpc.RpcError(rpc.SERVER_ERROR, NO_SESSIONS)
            case "openenv/session/close":
                raise rpc.RpcError(
                    rpc.INVALID_PARAMS,
                    f"Unknown session_id: {str(request.params.get('session_id'))[:60]}",
                )
        raise rpc.RpcError(rpc.METHOD_NOT_FOUND, f"Method not found: {request.method[:100]}")

    return 200, await rpc.answer_rpc_text(body, answer_request)


async def _call_tool(guest: OpenEnvClient, params: dict) -> dict:
    if "session_id" in params:
        raise rpc.RpcError(
            rpc.INVALID_PARAMS,
            f"Unknown session_id: {str(params['session_id'])[:60]}. {NO_SESSIONS}",
        )
    try:
        return await _play_once(guest, lambda play: rpc.call_tool(play, params))
    except sessions.NoRoom as full:
        room = {"active_sessions": full.active, "max_sessions": full.limit}
        raise rpc.RpcError(rpc.SERVER_ERROR, str(full), room) from None


async def _respond(guest: OpenEnvClient, do: Callable[[Play], Awaitable[dict]]) -> Answer:
    """Run the call and return status and document.

    Errors: 429 no room, 422 no action, 502 the environment broke, 503 no database.
    """
    try:
        return 200, await _play_once(guest, do)
    except sessions.NoRoom as full:
        return 429, {"detail": str(full)}
    except Unplayable as why:
        return (502, {"detail": str(why)}) if why.errors is None else (422, {"detail": why.errors})
    except DEAD_DATABASE:
        return 503, {"detail": "The database is not available; try again."}


async def _play_once(guest: OpenEnvClient, do: Callable[[Play], Awaitable[dict]]) -> dict:
    """Run the call in a new session. Raises NoRoom, Unplayable."""
    if why := why_not_served(guest.environment):
        raise Unplayable(why)
    session = await in_a_thread(sessions.begin_session, guest.environment, guest.token.user, "http")
    play = Play(guest.environment, session)
    keeping = asyncio.ensure_future(_keep(session.pk))
    try:
        return await do(play)
    finally:
        keeping.cancel()
        await play.close(OVER)
        await in_a_thread(sessions.close_session, session.pk, OVER)


async def _keep(session_id: int) -> None:
    while True:
        await asyncio.sleep(sessions.KEPT_EVERY_S)
        await in_a_thread(sessions.keep_session, session_id)
