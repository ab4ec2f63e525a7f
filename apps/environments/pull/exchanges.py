"""One HTTP/1.1 request and its reply, on its own connection: bounded, no redirects, strict JSON.

Connections are not reused. A request on a connection that the server has closed meanwhile looks
like a lost request, and a step must not be made twice.
"""

import asyncio
import json
from collections.abc import Sequence

import h11

from apps.accounts import strict_json
from apps.environments.pull.addresses import Address, unreachable
from apps.environments.pull.errors import BadStatus, CallFailed

MAX_REPLY_BYTES = 4 << 20  # bytes of one reply
CHUNK = 1 << 16


async def exchange_json(
    address: Address, machine: str, method: str, path: str, body: object = None, bearer: str = ""
) -> dict:
    """Send a request and return the reply, a JSON object.

    Raises CallFailed, including BadStatus. It has no time limit of its own.
    """
    body_bytes = None if body is None else json.dumps(body).encode()
    headers = [("Authorization", f"Bearer {bearer}")] if bearer else []
    status, reply = await _exchange(address, machine, method, path, body_bytes, headers)
    if status != 200:
        raise BadStatus(
            status,
            f"{method} {path}: the response has the status {status}{_excerpt(reply, bearer)}",
        )
    try:
        document = strict_json.decode_json(reply)
    except strict_json.NotStrictJson as why:
        raise CallFailed(f"{method} {path}: the response is not strict JSON: {why}") from None
    if not isinstance(document, dict):
        raise CallFailed(f"{method} {path}: the response must be an object")
    return document


async def posted(
    address: Address, machine: str, path: str, body: bytes, headers: Sequence[tuple[str, str]]
) -> str:
    """Send a POST request; return the reply's status and the beginning of its text.

    Raises CallFailed, and BadStatus for any status but those of success.
    """
    status, reply = await _exchange(address, machine, "POST", path, body, headers)
    if not 200 <= status < 300:
        raise BadStatus(status, f"answered with {status}{_excerpt(reply, '')}")
    return f"{status}{_excerpt(reply, '')}"


def _excerpt(reply: bytes, bearer: str) -> str:
    """Return the reply's beginning without the bearer token, which error pages often repeat."""
    hidden = reply.replace(bearer.encode(), b"...") if bearer else reply
    text = " ".join(hidden[:200].decode(errors="replace").replace("\0", "").split())
    return f": {text}" if text else ""


async def _exchange(
    address: Address,
    machine: str,
    method: str,
    path: str,
    body: bytes | None,
    headers: Sequence[tuple[str, str]],
) -> tuple[int, bytes]:
    try:
        reader, writer = await asyncio.open_connection(
            machine, address.port, ssl=address.tls, server_hostname=address.tls_name
        )
    except OSError as error:
        raise unreachable(error) from None
    try:
        connection = h11.Connection(h11.CLIENT)
        writer.write(_request(connection, address, method, path, body, headers))
        await writer.drain()
        return await _reply(connection, reader)
    except (OSError, h11.RemoteProtocolError) as error:
        raise CallFailed(f"{method} {path}: no complete response: {error}") from None
    finally:
        writer.close()


def _request(
    connection: h11.Connection,
    address: Address,
    method: str,
    path: str,
    body: bytes | None,
    more: Sequence[tuple[str, str]],
) -> bytes:
    headers = [
        ("Host", address.authority),
        ("Accept", "application/json"),
        ("Connection", "close"),
        ("User-Agent", "rftweb"),
    ]
    headers += more
    if body is not None:
        headers += [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    data = connection.send(h11.Request(method=method, target=address.path + path, headers=headers))
    if body is not None:
        data += connection.send(h11.Data(data=body))
    return data + connection.send(h11.EndOfMessage())


async def _reply(connection: h11.Connection, reader: asyncio.StreamReader) -> tuple[int, bytes]:
    status = 0
    received = bytearray()
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await reader.read(CHUNK))
        elif isinstance(event, h11.Response):
            status = event.status_code
            if dict(event.headers).get(b"content-encoding", b"identity") != b"identity":
                raise CallFailed(
                    "the response is compressed, although the request did not allow it"
                )
        elif isinstance(event, h11.Data):
            received += event.data
            if len(received) > MAX_REPLY_BYTES:
                raise CallFailed(f"the response is longer than {MAX_REPLY_BYTES} bytes")
        elif isinstance(event, h11.EndOfMessage):
            return status, bytes(received)
        elif not isinstance(event, h11.InformationalResponse):
            raise CallFailed("it closed the connection before it responded")
