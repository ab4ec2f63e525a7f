"""Any invalid input gets a problem document with the reason, never a 5xx and never a silent
change.
"""

import json
from collections.abc import Iterable, Iterator

import pytest
from rest_framework import serializers

from apps.accounts.documents import Choice, Number, Slug, Strict, Text, Uuid, Whole, Yes
from apps.feedback.models import Rating
from apps.policies.models import PolicyImport
from apps.runs.models import Run

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


@pytest.mark.parametrize(
    ("verb", "path", "accepted"),
    [
        ("post", "ratings/", "application/json"),
        ("post", "imports/", "multipart/form-data"),
        ("post", "lessons/", "multipart/form-data"),
        ("put", "model-imports/{upload}/files/config.json/?offset=0", "application/octet-stream"),
    ],
)
def test_unsupported_content_type_is_refused_with_the_one_to_send(
    caller, project, verb, path, accepted
):
    upload = PolicyImport.objects.create(
        project=project, kind="upload", slug="x", files={"config.json": 2}, state="uploading"
    )
    answer = caller.send(path.format(upload=upload.pk), b"{}", "text/plain", verb)
    problem = f"The Content-Type 'text/plain' is not supported: send {accepted}."
    assert (answer.status_code, answer.json()["detail"]) == (415, problem)


STRICT_FIELDS = {
    serializers.ChoiceField: Choice,
    serializers.BooleanField: Yes,
    serializers.CharField: Text | Slug | serializers.UUIDField,
    serializers.FloatField: Number,
    serializers.IntegerField: Whole,
    serializers.UUIDField: Uuid,
}


def json_documents(kind: type[Strict] = Strict) -> list[type[Strict]]:
    """Return the documents that clients send as JSON: all strict ones without a file."""
    known = [kind, *(one for child in kind.__subclasses__() for one in json_documents(child))]
    fields = {one: one().fields.values() for one in known if one is not Strict}
    return [
        one
        for one, parts in fields.items()
        if one.__module__.startswith("apps.")
        and not any(isinstance(part, serializers.FileField) for part in parts)
    ]


def loose_fields(fields: Iterable[serializers.Field]) -> Iterator[str]:
    """Yield the fields that read a number, a text or a truth value out of another JSON type."""
    for field in fields:
        for loose, strict in STRICT_FIELDS.items():
            if isinstance(field, loose) and not isinstance(field, strict):
                yield f"{field.field_name}: {type(field).__name__}"
        child = getattr(field, "child", None)
        yield from loose_fields([child] if child else getattr(field, "fields", {}).values())


def test_no_json_document_reads_a_value_of_another_type():
    documents = json_documents()
    assert len(documents) > 15
    loose = {
        document.__name__: [*loose_fields(document().fields.values())] for document in documents
    }
    assert {name: fields for name, fields in loose.items() if fields} == {}


@pytest.mark.parametrize("size", ["3", True, 3.0])
def test_size_of_an_uploaded_file_must_be_a_json_number(caller, project, size):
    files = {"config.json": size, "model.safetensors": 9}
    body = {"project": "lab", "kind": "upload", "slug": "x", "files": files}
    answer = caller.post("models/", body)
    assert answer.status_code == 422 and "files.config.json" in answer.json()["errors"]


def test_refused_choice_names_the_possible_ones(caller):
    [refusal] = caller.get("runs/", state="asleep").json()["errors"]["state"]
    assert refusal == f"Must be one of {', '.join(Run.State.values)}."


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
