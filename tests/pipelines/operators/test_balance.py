"""Groups of overrepresented kinds among the newest are thinned out: to the configured share, and
repeatably.
"""

import pytest

from apps.pipelines.operators.balance import Options, apply, choose_band, level
from apps.pipelines.operators.contract import GroupMetrics, Recent, Sample, Sifted


def applied(samples: list[Sample], **options: object) -> Sifted:
    return apply(samples, Options(**options))


def kept(samples: list[Sample], **options: object) -> list[int]:
    return [one.rollout for one in applied(samples, **options).kept]


def of_mix(*domains: str) -> list[Sample]:
    """Return two thousand groups of the last of these domains, preceded by a hundred groups in
    which each domain is as frequent as in the arguments.
    """
    before = tuple(GroupMetrics(domain, 10.0, 0.5) for domain in domains) * (100 // len(domains))
    recent = Recent(GroupMetrics(domains[-1], 10.0, 0.5), before)
    return [Sample(n, n, "", 1.0, recent=recent) for n in range(2_000)]


def test_overrepresented_domain_is_thinned_out_to_its_share():
    mix = ("maths", "code", "code", "code", "code")
    left = applied(of_mix(*mix), max_share=0.5, min_keep_probability=0.01)
    assert len(left.kept) / 2_000 == pytest.approx(
        0.25, abs=0.03
    )  # 0.8 × 0.25 equals the share of maths
    assert (
        "domain 'code' makes up 80% of the last 100 groups; 25% of these are kept"
        in left.reasons.values()
    )
    assert len(kept(of_mix(*reversed(mix)), max_share=0.5)) == 2_000
    assert len(kept(of_mix(*mix), max_share=0.8)) == 2_000


def test_thinning_out_keeps_a_minimum_share_and_starts_only_after_enough_groups():
    mix = ("maths", *["code"] * 19)
    assert len(kept(of_mix(*mix), min_keep_probability=0.5)) / 2_000 == pytest.approx(0.5, abs=0.03)
    assert len(kept(of_mix(*mix), min_groups=101)) == len(kept(of_mix("code"))) == 2_000


def test_thinning_out_is_repeatable_and_depends_on_the_seed():
    samples = of_mix("maths", "code", "code", "code", "code")
    one = kept(samples)
    other = kept(samples, seed=1)
    assert [n for n in range(2_000) if kept([samples[n]])] == one != other


@pytest.mark.parametrize(
    ("shares", "most", "expected"),
    [
        ((0.9, 0.1), 0.5, 0.1),
        ((0.5, 0.5), 0.5, 0.5),
        ((0.6, 0.3, 0.1), 0.5, 0.4),
        ((0.6, 0.3, 0.1), 0.4, 0.2),
        ((0.6, 0.3, 0.1), 0.2, 0.1),
        ((1.0,), 0.3, 1.0),
    ],
)
def test_level_reduces_the_largest_share_to_the_maximum(shares, most, expected):
    assert level(shares, most) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("by", "tokens", "success", "expected"),
    [
        ("length", 0, 0, "length 1 to 1"),
        ("length", 255.5, 0, "length 128 to 255"),
        ("length", 256, 0, "length 256 to 511"),
        ("success", 0, 0.0, "success 0 to 0.2"),
        ("success", 0, 0.8, "success 0.8 to 1"),
        ("success", 0, 1.0, "success 0.8 to 1"),
        ("domain", 0, 0, "no domain"),
    ],
)
def test_bands_are_named_by_their_limits(by, tokens, success, expected):
    assert choose_band(GroupMetrics("", tokens, success), by) == expected
