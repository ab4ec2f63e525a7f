import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.rollouts.payload import DamagedPayload, Tokens, pack, unpack_payload

ids = st.integers(0, 2**31 - 1)
floats = st.floats(-1e4, 0, width=32)


@st.composite
def tokens(draw):
    steps = draw(st.lists(st.tuples(ids, floats, st.integers(0, 1)), max_size=40))
    completion, logprobs, mask = zip(*steps, strict=True) if steps else ((), (), ())
    segments = draw(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 1000)), max_size=4))
    prompt = tuple(draw(st.lists(ids, max_size=40)))
    most = len(prompt) + len(completion)
    places = draw(st.sets(st.integers(0, most - 1), max_size=3)) if most else ()
    pictures = tuple(
        (draw(st.binary(min_size=32, max_size=32)).hex(), place, place + 1)
        for place in sorted(places)
    )
    return Tokens(prompt, completion, logprobs, mask, tuple(segments), pictures)


def packed_before(value):
    """Pack as before ids took as few bytes as they need: a simple version, written from the
    format's description.
    """
    sizes = [len(value.prompt_ids), len(value.completion_ids), len(value.segments)]
    numbers = [*value.prompt_ids, *value.completion_ids]
    data = (b"RFT2" if value.pictures else b"RFT1") + struct.pack("<3I", *sizes)
    data += b"".join(struct.pack("<i", number) for number in numbers)
    data += b"".join(struct.pack("<f", logprob) for logprob in value.logprobs)
    data += bytes(value.action_mask)
    data += b"".join(struct.pack("<I", start) for start, _ in value.segments)
    data += b"".join(struct.pack("<I", version) for _, version in value.segments)
    if value.pictures:
        data += struct.pack("<I", len(value.pictures))
        data += b"".join(bytes.fromhex(sha256) for sha256, _, _ in value.pictures)
        data += b"".join(struct.pack("<2I", first, past) for _, first, past in value.pictures)
    return data


@given(tokens())
def test_packed_tokens_are_unpacked_unchanged(value):
    assert unpack_payload(pack(value)) == value


@given(tokens())
def test_payloads_in_the_old_format_are_unpacked(value):
    assert unpack_payload(packed_before(value)) == value


@pytest.mark.parametrize("packed", [pack, packed_before])
@given(value=tokens(), missing=st.integers(1, 12))
def test_truncated_payload_is_refused(packed, value, missing):
    with pytest.raises(DamagedPayload):
        unpack_payload(packed(value)[:-missing])


@pytest.mark.parametrize("packed", [pack, packed_before])
@given(value=tokens(), surplus=st.binary(min_size=1, max_size=9))
def test_payload_with_trailing_bytes_is_refused(packed, value, surplus):
    with pytest.raises(DamagedPayload):
        unpack_payload(packed(value) + surplus)


@pytest.mark.parametrize(
    ("largest", "width"), [(0, 1), (255, 1), (256, 2), (65_535, 2), (65_536, 3), (2**24, 4)]
)
def test_token_id_takes_as_few_bytes_as_the_largest_needs(largest, width):
    one, two = (pack(Tokens((largest,) * count, (), (), (), ())) for count in (1, 2))
    assert len(two) - len(one) == width
    assert unpack_payload(two).prompt_ids == (largest, largest)


def test_token_ids_of_zero_bytes_are_refused():
    data = bytearray(pack(Tokens((), (), (), (), ())))
    data[-1] = 0
    with pytest.raises(DamagedPayload, match="ids of 0 bytes"):
        unpack_payload(bytes(data))


def test_logprobs_keep_every_bit():
    said = tuple(np.asarray([-1e-7, -0.1, -3.3333333, -88.7], "f4").tolist())
    assert (
        unpack_payload(pack(Tokens((1,), (1, 2, 3, 4), said, (1, 0, 1, 1), ((0, 1),)))).logprobs
        == said
    )


def test_bytes_with_wrong_magic_are_refused():
    with pytest.raises(DamagedPayload, match="magic"):
        unpack_payload(b"\x00" * 64)


def test_arrays_of_different_length_are_refused():
    with pytest.raises(DamagedPayload, match="differ in length"):
        Tokens((1,), (1, 2), (0.0,), (1, 1), ())


def test_versions_are_those_of_the_oldest_and_the_newest_segment():
    assert Tokens((), (1, 2), (0.0, 0.0), (1, 1), ((0, 4), (1, 5))).versions == (4, 5)


@st.composite
def sampled(draw):
    """Draw tokens as an engine returns them: ordered segments from the beginning, with rising
    versions.
    """
    mask = tuple(draw(st.lists(st.integers(0, 1), min_size=1, max_size=30)))
    starts = [0, *sorted(draw(st.sets(st.integers(1, len(mask)), max_size=3)) - {len(mask)})]
    versions = sorted(draw(st.sets(st.integers(0, 9), min_size=len(starts), max_size=len(starts))))
    return Tokens(
        (1,), (5,) * len(mask), (-1.0,) * len(mask), mask, tuple(zip(starts, versions, strict=True))
    )


@given(sampled())
def test_newest_mask_contains_only_tokens_that_the_newest_version_sampled(value):
    by = [
        next(version for start, version in reversed(value.segments) if start <= place)
        for place in range(len(value.action_mask))
    ]
    newest = max(by)
    assert value.newest_mask == tuple(
        here if version == newest else 0
        for here, version in zip(value.action_mask, by, strict=True)
    )


def test_newest_mask_without_segments_is_the_action_mask():
    assert Tokens((1,), (2, 3), (0.0, 0.0), (1, 0), ()).newest_mask == (1, 0)
