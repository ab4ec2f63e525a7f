"""Weight files that a web process serves: to whom, and which bytes."""

import hashlib
import re
import time
from pathlib import Path
from urllib.parse import unquote

import pytest
from django.http import HttpResponse
from django.test import Client

from apps.policies.manifest import read_manifest
from apps.policies.transfer.ranges import NoSuchPart, Part, parse_range
from apps.policies.transfer.signing import ANSWER_HEADER, SKEW_S, SignedRequest, is_answer_signed
from apps.runs.models import WeightVersion
from tests.weight_folders import write_sealed

SECRET = "s" * 32
MODEL = "model.safetensors"


@pytest.fixture
def handed_out(policy, tmp_path, settings):
    """Point the policy at a real sealed folder, and set the publisher's secret."""
    settings.WEIGHTS_SECRET = SECRET
    sealed = write_sealed(tmp_path / "handed-out")
    policy.folder = str(sealed)
    policy.fingerprint = read_manifest(sealed).fingerprint
    policy.save()
    return policy


def place(policy, name: str) -> str:
    return f"/weight-files/policies/{policy.pk}/{policy.fingerprint}/{name}"


def ask(path: str, part: str = "", secret: str = SECRET, ahead_s: int = 0) -> HttpResponse:
    """Send a signed request, as a client whose clock is `ahead_s` ahead; return the response."""
    wish = SignedRequest(path, "away", int(time.time()) + ahead_s, part)
    headers = {"Authorization": wish.header(secret), **({"Range": part} if part else {})}
    answer = Client().get(path, headers=headers)
    answer.wish = wish
    return answer


def body_of(answer: HttpResponse) -> bytes:
    return b"".join(answer.streaming_content) if answer.streaming else answer.content


def test_manifest_is_sent_unchanged_and_signed_for_this_request_only(handed_out):
    answer = ask(place(handed_out, "manifest.json"))
    assert answer.content == sealed_bytes(handed_out, "manifest.json")
    signature = answer[ANSWER_HEADER]
    assert is_answer_signed(SECRET, answer.wish, answer.content, signature)
    assert not is_answer_signed(SECRET, answer.wish, answer.content + b" ", signature)
    other = SignedRequest(answer.wish.path, "away", answer.wish.at + 1)
    assert not is_answer_signed(SECRET, other, answer.content, signature)


def sealed_bytes(policy, name: str) -> bytes:
    return (Path(policy.folder) / name).read_bytes()


def test_file_is_sent_whole_or_in_the_requested_range(handed_out):
    data = sealed_bytes(handed_out, MODEL)
    whole, tail, middle = (
        ask(place(handed_out, MODEL), part) for part in ("", "bytes=10-", "bytes=3-6")
    )
    assert (whole.status_code, body_of(whole)) == (200, data)
    assert whole["ETag"] == f'"{hashlib.sha256(data).hexdigest()}"'
    assert (tail.status_code, body_of(tail)) == (206, data[10:])
    assert tail["Content-Range"] == f"bytes 10-{len(data) - 1}/{len(data)}"
    assert body_of(middle) == data[3:7] and middle["Content-Length"] == "4"
    assert ask(place(handed_out, MODEL), f"bytes={len(data)}-").status_code == 416


def test_range_is_cut_to_the_longest_part_and_odd_ranges_mean_the_whole_file(monkeypatch):
    monkeypatch.setattr("apps.policies.transfer.ranges.MAX_PART_LENGTH", 8)
    assert parse_range("bytes=2-", 100) == Part(2, 10, 100)
    for odd in ("", "bytes=-5", "bytes=1-2,4-5", "lines=1-2", "bytes=x-"):
        assert parse_range(odd, 100) is None
    for beyond in ("bytes=100-", "bytes=5-4"):
        with pytest.raises(NoSuchPart):
            parse_range(beyond, 100)


@pytest.mark.parametrize("name", ["..%2Fsecret", "nothing.json", "manifest.json.tmp", "config%00"])
def test_only_files_of_the_manifest_are_sent(handed_out, name, tmp_path):
    (tmp_path / "secret").write_text("kept to itself")
    path = place(handed_out, name)
    wish = SignedRequest(unquote(path), "away", int(time.time()))
    answer = Client().get(path, headers={"Authorization": wish.header(SECRET)})
    assert answer.status_code in (400, 401, 404)
    assert b"kept to itself" not in body_of(answer)


def test_symlink_or_file_of_a_different_size_is_not_sent(handed_out):
    folder = Path(handed_out.folder)
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer.json").symlink_to("/etc/hostname")
    assert ask(place(handed_out, "tokenizer.json")).status_code == 410
    (folder / MODEL).write_bytes(b"cut")
    answer = ask(place(handed_out, MODEL))
    assert answer.status_code == 410 and str(folder) not in answer.content.decode()


@pytest.mark.parametrize(
    "header", ["", "Bearer rft_usr_x", "RFTWEB-Weights host=a, at=1, signature=" + "0" * 64]
)
def test_unsigned_requests_get_the_same_401_for_known_and_unknown_files(handed_out, header):
    known, unknown = (
        Client().get(path, headers={"Authorization": header})
        for path in (place(handed_out, MODEL), "/weight-files/policies/0/none/x")
    )
    assert known.status_code == unknown.status_code == 401
    assert known.content == unknown.content


def test_signature_for_another_secret_path_or_range_is_refused(handed_out, settings):
    path = place(handed_out, MODEL)
    assert ask(path, secret="t" * 32).status_code == 401
    stolen = ask(path, "bytes=0-1").wish.header(SECRET)
    for other in ({"Range": "bytes=0-2"}, {}):
        assert Client().get(path, headers={"Authorization": stolen, **other}).status_code == 401
    moved = place(handed_out, "config.json")
    assert Client().get(moved, headers={"Authorization": stolen}).status_code == 401
    settings.WEIGHTS_SECRET = ""  # this publisher serves no weights
    assert ask(path, secret="").status_code == 401


def test_signature_with_a_wrong_time_is_refused_with_the_clock_difference(handed_out):
    answer = ask(place(handed_out, MODEL), ahead_s=SKEW_S + 50)
    assert answer.status_code == 401 and answer.json()["code"] == "clock"
    differ = int(re.search(r"differ by (\d+) s", answer.json()["detail"])[1])
    assert SKEW_S + 40 < differ <= SKEW_S + 50
    assert ask(place(handed_out, MODEL), ahead_s=SKEW_S - 50).status_code == 200


def test_version_is_served_only_while_it_is_published(handed_out, run):
    row = run.weight_versions.get()
    WeightVersion.objects.filter(pk=row.pk).update(
        folder=handed_out.folder, fingerprint=handed_out.fingerprint
    )
    path = f"/weight-files/versions/{row.pk}/{handed_out.fingerprint}/config.json"
    assert ask(path).status_code == 200
    assert ask(path.replace(handed_out.fingerprint, "0" * 16)).status_code == 404
    for state in ("staged", "verified", "retired", "refused"):
        WeightVersion.objects.filter(pk=row.pk).update(state=state)
        assert ask(path).status_code == 404
