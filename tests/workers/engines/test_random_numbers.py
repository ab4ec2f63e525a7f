"""The random numbers of sampling: they depend only on seed and position, and they are random."""

import pytest
import torch

from workers.engines.random_numbers import BLOCK, Seeds, draw_tokens, stretch_seed, uniforms

MASK = 2**64 - 1


def mixed(bits: int) -> int:
    """Return SplitMix64's finalizer, computed with Python integers."""
    bits &= MASK
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EB & MASK
    return bits ^ (bits >> 31)


def expected(seed: int, place: int) -> float:
    golden = 0x9E3779B97F4A7C15
    return (mixed(mixed(seed + golden) ^ mixed((place + 1) * golden)) >> 11) * 2.0**-53


def test_random_numbers_match_splitmix64():
    seeds = [0, 1, 2**63 - 1, 1234567890123456789]
    places = [0, 5, 9, 100_000]
    assert uniforms(torch.tensor(seeds), torch.tensor(places)).tolist() == [
        expected(seed, place) for seed, place in zip(seeds, places, strict=True)
    ]


def test_neighbouring_seeds_and_positions_have_unrelated_numbers():
    seeds = torch.arange(1000)[:, None]
    places = torch.arange(1000)[None]
    found = uniforms(seeds, places)
    assert len(found.unique()) == found.numel()
    counts = torch.histc(found.float(), 100, 0, 1)
    assert ((counts - 10_000) ** 2 / 10_000).sum() < 150  # chi-squared, 99 degrees of freedom
    for one, other in ((found[:, 1:], found[:, :-1]), (found[1:], found[:-1])):
        pair = torch.stack([one.flatten(), other.flatten()])
        assert abs(torch.corrcoef(pair)[0, 1]) < 0.004


def test_tokens_are_drawn_in_proportion_to_their_probability():
    chances = torch.tensor([0.5, 0.0, 0.3, 0.2, 0.0])
    grid = (torch.arange(1000).double() + 0.5) / 1000
    found, _ = draw_tokens(chances.log().expand(1000, 5), grid)
    assert torch.bincount(found, minlength=5).tolist() == [500, 0, 300, 200, 0]


def test_token_with_zero_probability_is_never_drawn():
    last_impossible = torch.tensor([[0.0, 0.6, 0.4, 0.0]]).log().expand(2, 4)
    ends = torch.tensor([0.0, 1 - 2.0**-53], dtype=torch.float64)
    assert draw_tokens(last_impossible, ends)[0].tolist() == [1, 2]


def test_rare_tokens_of_a_large_vocabulary_can_be_drawn():
    logits = torch.zeros(200_000)
    logits[0] = 24.0  # each of the others has a probability of 4e-11: float32 could not add it to 1
    logprobs = torch.log_softmax(logits, -1)[None]
    rare = 1 - logprobs.exp()[0, 0].double()
    middle, _ = draw_tokens(logprobs, torch.tensor([1 - rare / 2], dtype=torch.float64))
    # Logprobs are rounded, more by some processors' kernels than by others'.
    assert abs(middle.item() - 100_000) < 15_000


@pytest.mark.parametrize("vocabulary", [1, 7, BLOCK, BLOCK + 1, 5 * BLOCK + 3])
def test_drawn_tokens_and_logprobs_match_one_cumulative_sum(vocabulary):
    logits = torch.randn(500, vocabulary) * 4
    uniform = torch.rand(500, dtype=torch.float64)
    ids, logprobs = draw_tokens(logits, uniform)
    exact = torch.log_softmax(logits.double(), -1)
    sums = exact.exp().cumsum(-1)
    slowly = torch.searchsorted(sums, (uniform * sums[:, -1])[:, None], right=True)[:, 0]
    # A number on the boundary between two tokens may be rounded to either side.
    assert (ids != slowly.clamp(max=vocabulary - 1)).float().mean() < 0.01
    assert torch.allclose(logprobs.double(), exact.gather(1, ids[:, None])[:, 0], atol=1e-5)


def test_non_finite_logits_give_nan_logprobs():
    logits = torch.zeros(2, 3 * BLOCK)
    logits[0, 5] = torch.nan
    logits[1, 5] = torch.inf
    ids, logprobs = draw_tokens(logits, torch.full((2,), 0.5, dtype=torch.float64))
    assert int(ids.max()) < 3 * BLOCK and logprobs.isnan().all()


def test_requests_without_a_seed_get_different_seeds():
    drawn = {Seeds(None).next() for _ in range(100)}
    assert len(drawn) == 100
    numbered = Seeds(3)
    first = [numbered.next() for _ in range(3)]
    again = Seeds(3)
    assert first == [again.next() for _ in range(3)] and len(set(first)) == 3


def test_each_stretch_of_a_request_has_its_own_seed():
    seeds = {stretch_seed(seed, place) for seed in range(30) for place in range(30)}
    assert len(seeds) == 900 and all(0 <= seed < 2**63 for seed in seeds)
