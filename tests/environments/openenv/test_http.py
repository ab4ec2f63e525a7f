"""OpenEnv over HTTP: the description of an environment, single moves, JSON-RPC, and access.

Errors have OpenEnv's shape.
"""

import base64
import json
from dataclasses import dataclass

import pytest
from django.http import HttpResponse
from django.test import Client

from apps.accounts.models import Token
from apps.environments.closing import fail_episode
from apps.environments.episode_opening import open_for
from apps.environments.models import Environment, PlaySession
from apps.environments.openenv import sessions
from tests.environments.openenv.conftest import connected

pytestmark = pytest.mark.django_db(transaction=True)


@dataclass
class Caller:
    authorization: str = ""
    base: str = "/openenv/lab/guess_number"

    def get(self, path: str) -> HttpResponse:
        return self._client().get(f"{self.base}/{path}", headers=self._headers())

    def post(self, path: str, body: object) -> HttpResponse:
        body = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self._client().post(
            f"{self.base}/{path}", body, content_type="application/json", headers=self._headers()
        )

    def _client(self) -> Client:
        return Client(raise_request_exception=False)

    def _headers(self) -> dict[str, str]:
        return {"Authorization": self.authorization} if self.authorization else {}


@pytest.fixture
def caller(guessing, secret, unhurried) -> Caller:
    return Caller(f"Bearer {secret}")


def test_environment_serves_metadata_schemas_and_openapi_document(caller, guessing):
    about = caller.get("metadata").json()
    assert (about["name"], about["version"]) == ("guess_number", "1") and "secret number" in about[
        "description"
    ]
    schemas = caller.get("schema").json()
    assert set(schemas) == {"action", "observation", "state", "reset_observation"}
    assert schemas["action"]["properties"]["action"] == {"type": "string"} and schemas["action"][
        "required"
    ] == ["action"]
    document = caller.get("openapi.json").json()
    assert document["info"]["version"] == "1.0.0" and {"/reset", "/step", "/state", "/mcp"} <= set(
        document["paths"]
    )
    assert document["servers"] == [{"url": "http://testserver/openenv/lab/guess_number"}]
    assert caller.get("state").json()["step_count"] == 0


def test_object_schema_is_served_unchanged(caller, answering, service):
    schema = {
        "type": "object",
        "properties": {"guess": {"type": "string"}, "sure": {"type": "boolean"}},
        "required": ["guess"],
    }
    Environment.objects.filter(pk=answering.pk).update(action_schema=schema)
    caller.base = "/openenv/called"
    assert caller.get("schema").json()["action"] == schema
    caller.post("step", {"action": {"guess": "5", "sure": True}})
    assert service.heard("/step")[0]["action"] == {"guess": "5", "sure": True}
    assert caller.post("step", {"action": {"sure": 1}}).json()["detail"][0]["loc"] in ([], ["sure"])


def test_single_http_moves_are_independent_of_each_other(caller, guessing):
    assert caller.post("reset", {"seed": 3}).json() == {
        "observation": {"text": "", "metadata": {}},
        "reward": None,
        "done": False,
    }
    assert (
        caller.post("step", {"action": {"action": "0"}}).json()["observation"]["text"] == "higher"
    )
    wrong = caller.post("step", {"action": {"action": 5}})
    assert (wrong.status_code, wrong.json()["detail"][0]["loc"]) == (422, ["action"])
    assert caller.post("step", {}).status_code == 422
    assert caller.post("reset", b"{").status_code == caller.post("reset", []).status_code == 400
    assert caller.post("reset", {"low": 9, "high": 2}).status_code == 502
    assert not sessions.living(guessing).exists() and not guessing.episodes.open().exists()


def test_full_environment_returns_429(caller, guessing, alice):
    Environment.objects.filter(pk=guessing.pk).update(parallel=1)
    sessions.begin_session(guessing, alice, "ws")
    full = caller.post("reset", {})
    assert (full.status_code, full["Retry-After"], "1/1" in full.json()["detail"]) == (
        429,
        "1",
        True,
    )


def test_health_describes_the_server_to_anybody_and_the_environment_to_a_guest(
    caller, guessing, alice
):
    nobody = Caller()
    assert nobody.get("health").json() == caller.get("health").json() == {"status": "healthy"}
    session = sessions.begin_session(guessing, alice, "ws")
    for _ in range(5):
        fail_episode(open_for(session, guessing, 0, {}).pk, "it broke")
    assert caller.get("health").json() == {"status": "unhealthy"}
    nobody.base = caller.base = "/openenv/lab/nowhere"
    assert (nobody.get("health").status_code, caller.get("health").status_code) == (200, 404)


def test_other_endpoints_require_a_token_with_the_play_scope(caller, guessing, alice, bob):
    secret = Token.issue(alice, "plays", ["env:play:guess_number"])[1]
    password = base64.b64encode(f"anybody:{secret}".encode()).decode()
    reads = Token.issue(alice, "reads", ["read", "env:write:*"])[1]
    rates = Token.issue(bob, "rates", ["env:play:*"])[1]
    said = [
        "",
        f"Bearer {secret}x",
        "Basic x",
        f"Bearer {reads}",
        f"Bearer {rates}",
        f"Basic {password}",
    ]
    met = [Caller(authorization).get("metadata") for authorization in said]
    assert [answer.status_code for answer in met] == [401, 401, 401, 403, 403, 200]
    assert met[0]["WWW-Authenticate"] == "Bearer"  # browsers must not ask for a password
    assert met[3].json() == {"detail": "This token lacks the scope `env:play:guess_number`."}
    browser = Client()
    browser.force_login(alice)
    assert browser.get("/openenv/lab/guess_number/metadata").status_code == 401
    assert browser.get(f"/openenv/lab/guess_number/metadata?token={secret}").status_code == 401


RPC = [
    (b"{", -32700),
    (b"{}", -32600),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "extra": 1}', -32600),
    (b'{"jsonrpc": "2.0", "id": true, "method": "tools/list"}', -32600),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "initialize"}', -32601),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "reset"}}', -32602),
    (
        (
            b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "act",'
            b' "arguments": {}}}'
        ),
        -32603,
    ),
    (b'{"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create"}', -32000),
    (
        (
            b'{"jsonrpc": "2.0", "id": 1, "method": "openenv/session/close", "params":'
            b' {"session_id": "1"}}'
        ),
        -32602,
    ),
]


def test_json_rpc_returns_200_with_standard_error_codes(caller):
    answers = [caller.post("mcp", body) for body, _ in RPC]
    assert {answer.status_code for answer in answers} == {200}
    assert [answer.json()["error"]["code"] for answer in answers] == [code for _, code in RPC]
    listed = caller.post("mcp", {"jsonrpc": "2.0", "id": "a", "method": "tools/list"}).json()
    assert listed["id"] == "a" and [tool["name"] for tool in listed["result"]["tools"]] == [
        "begin",
        "act",
    ]
    called = {"name": "act", "arguments": {"action": "0"}}
    result = caller.post(
        "mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": called}
    ).json()["result"]
    assert (result["content"][0]["text"], result["is_error"]) == ("higher", False)


def test_over_a_socket_json_rpc_plays_one_session(play, caller, secret, guessing):
    def call(method: str, **params: object) -> str:
        return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})

    async def whole():
        async with connected("/openenv/guess_number/mcp", secret) as wire:
            begun = await wire.say(call("tools/call", name="begin", arguments={"seed": 3}))
            right = await wire.say(call("tools/call", name="act", arguments={"action": "8"}))
            ended = await wire.say(call("tools/call", name="act", arguments={"action": "8"}))
            named = await wire.say(call("openenv/session/create"))
        async with connected("/openenv/guess_number/ws", secret) as wire:
            return begun, right, ended, named, await wire.ask("mcp", json.loads(call("tools/list")))

    begun, right, ended, named, listed = play(whole)
    assert begun["result"]["structured_content"]["done"] is False
    assert right["result"]["structured_content"]["reward"] == 1.0
    assert ended["error"] == {
        "code": -32603,
        "message": "The episode has ended: reset first.",
        "data": None,
    }
    assert named["result"]["session_id"] == str(PlaySession.objects.order_by("pk").first().pk)
    assert listed["type"] == "mcp" and len(listed["data"]["result"]["tools"]) == 2
