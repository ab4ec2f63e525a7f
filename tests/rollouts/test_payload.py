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
