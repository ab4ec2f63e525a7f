import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.rollouts.payload import DamagedPayload, Tokens, pack, unpack

ids = st.integers(0, 2**31 - 1)
floats = st.floats(-1e4, 0, width=32)


@st.composite
def tokens(draw):
    steps = draw(st.lists(st.tuples(ids, floats, st.integers(0, 1)), max_size=40))
    completion, logprobs, mask = zip(*steps, strict=True) if steps else ((), (), ())
    segments = draw(st.lists(st.tuples(st.integers(0, 100), st.integers(0, 1000)), max_size=4))
    return Tokens(tuple(draw(st.lists(ids, max_size=40))), completion, logprobs, mask, tuple(segments))


@given(tokens())
def test_what_is_packed_is_unpacked(value):
    assert unpack(pack(value)) == value


@given(tokens(), st.integers(1, 12))
def test_a_cut_payload_is_refused(value, missing):
    with pytest.raises(DamagedPayload):
        unpack(pack(value)[:-missing])


def test_other_bytes_are_refused():
    with pytest.raises(DamagedPayload, match="magic"):
        unpack(b"\x00" * 64)


def test_arrays_of_different_length_are_refused():
    with pytest.raises(DamagedPayload, match="differ in length"):
        Tokens((1,), (1, 2), (0.0,), (1, 1), ())


def test_versions_are_the_oldest_and_the_newest_segment():
    assert Tokens((), (1, 2), (0.0, 0.0), (1, 1), ((0, 4), (1, 5))).versions == (4, 5)


@st.composite
def sampled(draw):
    """Tokens as an engine leaves them: segments in order, the first from the beginning, versions that only rise."""
    mask = tuple(draw(st.lists(st.integers(0, 1), min_size=1, max_size=30)))
    starts = [0, *sorted(draw(st.sets(st.integers(1, len(mask)), max_size=3)) - {len(mask)})]
    versions = sorted(draw(st.sets(st.integers(0, 9), min_size=len(starts), max_size=len(starts))))
    return Tokens((1,), (5,) * len(mask), (-1.0,) * len(mask), mask, tuple(zip(starts, versions, strict=True)))


@given(sampled())
def test_the_newest_mask_is_of_what_the_newest_version_sampled_alone(value):
    by = [next(version for start, version in reversed(value.segments) if start <= place) for place in range(len(value.action_mask))]
    newest = max(by)
    assert value.newest_mask == tuple(here if version == newest else 0 for here, version in zip(value.action_mask, by, strict=True))


def test_where_nobody_sampled_the_newest_mask_is_the_mask():
    assert Tokens((1,), (2, 3), (0.0, 0.0), (1, 0), ()).newest_mask == (1, 0)
