"""An OpenID Connect provider on loopback: discovery, authorization code with PKCE, user info, keys.

It signs ID tokens with RS256, and checks client, secret, redirect address, code and PKCE verifier.
"""

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlencode, urlsplit

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa

CLIENT = "rftweb"
SECRET = "a client secret"


class Provider:
    """A provider whose signed-in user, `person`, is set by the test."""

    def __init__(self) -> None:
        self.key = rsa.generate_private_key(65537, 2048)
        self.signing_key = self.key  # a test sets another key to forge a signature
        self.address = ""
        self.person: dict = {}
        self.told: dict = {}  # claims of the ID token that differ from the person's
        self.is_broken = False
        self.codes: dict[str, dict] = {}
        self.tokens: dict[str, dict] = {}

    def discovery(self) -> dict:
        return {
            "issuer": self.address,
            "authorization_endpoint": f"{self.address}/authorize",
            "token_endpoint": f"{self.address}/token",
            "userinfo_endpoint": f"{self.address}/userinfo",
            "jwks_uri": f"{self.address}/keys",
            "token_endpoint_auth_methods_supported": ["client_secret_basic"],
        }

    def keys(self) -> dict:
        public = jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        return {"keys": [{**public, "kid": "one", "alg": "RS256", "use": "sig"}]}

    def authorize(self, asked: dict[str, str]) -> str:
        """Return where the browser goes, with a code for the person who is signed in."""
        assert asked["client_id"] == CLIENT and asked["response_type"] == "code"
        assert "openid" in asked["scope"].split() and asked["code_challenge_method"] == "S256"
        code = secrets.token_urlsafe(20)
        self.codes[code] = asked
        query = urlencode({"code": code, "state": asked["state"]})
        return f"{asked['redirect_uri']}?{query}"

    def token(self, asked: dict[str, str], authorization: str) -> dict | None:
        """Return tokens for a code, once; None if the request is invalid."""
        given = base64.b64encode(f"{CLIENT}:{SECRET}".encode()).decode()
        began = self.codes.pop(asked.get("code", ""), None)
        if authorization != f"Basic {given}" or began is None:
            return None
        digest = hashlib.sha256(asked.get("code_verifier", "").encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        if challenge != began["code_challenge"] or asked["redirect_uri"] != began["redirect_uri"]:
            return None
        access = secrets.token_urlsafe(20)
        self.tokens[access] = self.person
        claims = {
            "iss": self.address,
            "aud": CLIENT,
            "sub": self.person["sub"],
            "iat": int(time.time()),
            "exp": int(time.time()) + 300,
            **self.told,
        }
        signed = jwt.encode(claims, self.signing_key, algorithm="RS256", headers={"kid": "one"})
        return {"access_token": access, "token_type": "Bearer", "id_token": signed}


class Handler(BaseHTTPRequestHandler):
    provider: Provider

    def do_GET(self) -> None:
        place = urlsplit(self.path)
        provider = self.provider
        if provider.is_broken:
            self.send_error(503)
        elif place.path == "/.well-known/openid-configuration":
            self._answer(provider.discovery())
        elif place.path == "/keys":
            self._answer(provider.keys())
        elif place.path == "/authorize":
            asked = {name: values[0] for name, values in parse_qs(place.query).items()}
            self.send_response(302)
            self.send_header("Location", provider.authorize(asked))
            self.end_headers()
        elif place.path == "/userinfo":
            token = self.headers.get("Authorization", "").removeprefix("Bearer ")
            self._answer(provider.tokens.get(token))
        else:
            self.send_error(404)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        asked = {name: values[0] for name, values in parse_qs(body).items()}
        self._answer(self.provider.token(asked, self.headers.get("Authorization", "")))

    def _answer(self, document: dict | None) -> None:
        text = json.dumps({"error": "invalid_grant"} if document is None else document).encode()
        self.send_response(400 if document is None else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Write nothing to the terminal."""


@contextmanager
def serving() -> Iterator[Provider]:
    provider = Provider()
    handler = type("Handler", (Handler,), {"provider": provider})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    provider.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield provider
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
