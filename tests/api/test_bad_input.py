"""Any invalid input gets a problem document with the reason, never a 5xx and never a silent
change.
"""

import json

import pytest

from apps.feedback.models import Rating

pytestmark = pytest.mark.django_db

UUID = "6f1c2b1e-0000-4000-8000-000000000001"
UNREADABLE = [
    b"{",
    b"",
    b"\xff\xfe",
    b'{"ratings": NaN}',
    b'{"ratings": [1e400]}',
    b'{"ratings": [], "ratings": []}',
    b'{"ratings": ["\\u0000"]}',
    b'{"ratings": ["\\ud800"]}',
    b'{"ratings": [' + b"9" * 5_000 + b"]}",
    b"[" * 2_000 + b"]" * 2_000,
    b"[" * 100_000,
]
NOT_ACCEPTABLE = [
    ([], "body"),
    ({}, "ratings"),
    ({"ratings": 1}, "ratings"),
    ({"ratings": []}, "ratings"),
    ({"ratings": {}}, "ratings"),
    (None, "body"),
    ({"ratings": [{}] * 501}, "ratings"),
    ({"ratings": [{}], "rating": 1}, "rating"),
    ("text", "body"),
    (7, "body"),
    (True, "body"),
]
GOOD = {"rollout": 1, "stars": 3, "client_uuid": UUID}
BAD_ITEMS = [
    None,
    1,
    "x",
    [],
    {},
    {"rollout": 1, "stars": 3},
    {**GOOD, "comment": "hi"},
    {**GOOD, "stars": 0},
    {**GOOD, "stars": 6},
    {**GOOD, "stars": True},
    {**GOOD, "stars": "3"},
    {**GOOD, "stars": 3.0},
    {**GOOD, "rollout": "1_0"},
    {**GOOD, "rollout": 2**63},
    {**GOOD, "rollout": -1},
    {**GOOD, "rollout": None},
    {**GOOD, "client_uuid": 5},
    {**GOOD, "client_uuid": "x" * 36},
    {**GOOD, "client_uuid": UUID.replace("-", "")},
]


@pytest.fixture
def caller(program, alice):
    return program(alice)


@pytest.mark.parametrize("body", UNREADABLE, ids=lambda body: repr(body[:30]))
def test_an_unreadable_body_is_refused_with_the_reason(caller, body):
    answer = caller.send("ratings/", body)
    assert answer.status_code in (400, 422) and answer["Content-Type"] == "application/problem+json"
    assert answer.json()["detail"]


@pytest.mark.parametrize(("document", "field"), NOT_ACCEPTABLE, ids=lambda value: repr(value)[:30])
def test_invalid_body_is_refused_by_field(caller, document, field):
    answer = caller.send("ratings/", json.dumps(document).encode())
    assert answer.status_code == 422
    assert field in answer.json()["errors"]


@pytest.mark.parametrize("item", BAD_ITEMS, ids=lambda item: repr(item)[:60])
def test_only_the_invalid_rating_of_a_request_is_refused(caller, run, finish, item):
    [group] = finish(run)
    good = {"rollout": group.rollouts.first().pk, "stars": 3, "client_uuid": UUID}
    answer = caller.post("ratings/", {"ratings": [item, good]})
    assert answer.status_code == 207
    refused, taken = answer.json()["results"]
    assert (refused["status"], taken["status"]) == (422, 201) and refused["detail"]
    assert Rating.objects.count() == 1


def test_oversized_body_gets_413(caller, settings):
    assert (
        caller.send("ratings/", b" " * (settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 1)).status_code
        == 413
    )


@pytest.mark.parametrize(
    "content_type",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/xml",
    ],
)
def test_unsupported_content_type_gets_415(caller, content_type):
    assert caller.send("ratings/", b'{"ratings": []}', content_type).status_code == 415


def test_compressed_body_gets_415(caller):
    assert caller.send("ratings/", b"\x1f\x8b", **{"Content-Encoding": "gzip"}).status_code == 415


@pytest.mark.parametrize("path", ["ratings/", "runs/1/start/"])
def test_wrong_method_gets_405(caller, path):
    assert caller.get(path).status_code == 405


@pytest.mark.parametrize(
    ("path", "query", "field"),
    [
        ("runs/", {"state": "asleep"}, "state"),
        ("runs/", {"limit": 0}, "limit"),
        ("runs/", {"limit": 10**30}, "limit"),
        ("runs/", {"before": "x"}, "before"),
        ("runs/", {"before": 2**63}, "before"),
        ("runs/", {"before": 1, "after": 1}, "after"),
        ("runs/", {"project": "a\x00b"}, "project"),
        ("runs/", {"colour": "red"}, "colour"),
        ("runs/", {"state": ["created", "running"]}, "state"),
        ("rollouts/", {"run": -1}, "run"),
        ("rollouts/", {"state": "\ud83d"}, "state"),
        ("rating-queue/", {"limit": 101}, "limit"),
    ],
)
def test_wrong_query_parameter_is_refused_with_its_name(caller, path, query, field):
    answer = caller.get(
        path,
        **{
            name: value.encode("utf-8", "surrogatepass") if isinstance(value, str) else value
            for name, value in query.items()
        },
    )
    assert answer.status_code == 422
    assert field in answer.json()["errors"]


@pytest.mark.parametrize("number", [0, 2**31, 2**63, 10**40])
@pytest.mark.parametrize("path", ["runs/{}/", "runs/{}/metrics/", "rollouts/{}/"])
def test_unknown_id_is_404(caller, path, number):
    assert caller.get(path.format(number)).status_code == 404


@pytest.mark.parametrize(
    "path", ["", "nothing/", "runs", "runs/x/", "runs/1/explode/", "ratings/1/"]
)
def test_unknown_address_returns_a_problem_document(stranger, path):
    for answer in (stranger.get(path), stranger.post(path)):
        assert (answer.status_code, answer["Content-Type"]) == (404, "application/problem+json")
