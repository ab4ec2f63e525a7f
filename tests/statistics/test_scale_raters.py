"""Bias and noise on a scale: a simulation with known truth, a simple calculation, and cases with
few decisions.
"""

import numpy as np
import pytest

from apps.statistics import scale_raters

BIAS = np.array([0.3, -0.2, 0.0, 0.1, -0.2, 0.0])
NOISE = np.array([0.05, 0.1, 0.2, 0.3, 0.1, 0.5])


def simulated(units=500, per_unit=3, seed=1):
    random = np.random.default_rng(seed)
    truth = random.normal(0.5, 0.25, units)
    unit = np.repeat(np.arange(units), per_unit)
    rater = np.concatenate(
        [random.choice(len(BIAS), per_unit, replace=False) for _ in range(units)]
    )
    return unit, rater, truth[unit] + BIAS[rater] + random.normal(0, NOISE[rater]), truth


def test_bias_and_noise_of_each_rater_are_recovered():
    unit, rater, said, _ = simulated()
    found = scale_raters.fit_scale_raters(unit, rater, said)
    assert found.bias - found.bias.mean() == pytest.approx(BIAS - BIAS.mean(), abs=0.05)
    assert np.sqrt(found.variance) == pytest.approx(NOISE, abs=0.06)


def test_estimated_truth_is_nearer_than_the_mean_of_the_decisions():
    unit, rater, said, truth = simulated()
    found = scale_raters.fit_scale_raters(unit, rater, said)
    means = np.bincount(unit, weights=said) / 3

    def away(estimate):
        return np.sqrt(np.mean((estimate - estimate.mean() - (truth - truth.mean())) ** 2))

    assert away(found.truth) < 0.7 * away(means)


def test_deviation_shows_how_far_the_estimated_truth_is_off():
    unit, rater, said, truth = simulated()
    found = scale_raters.fit_scale_raters(unit, rater, said)
    off = (found.truth - found.truth.mean()) - (truth - truth.mean())
    assert 0.85 < np.mean(np.abs(off) < 1.96 * found.deviation) < 0.99


def test_biases_weighted_by_precision_sum_to_zero():
    unit, rater, said, _ = simulated()
    found = scale_raters.fit_scale_raters(unit, rater, said)
    assert np.average(found.bias, weights=np.bincount(rater) / found.variance) == pytest.approx(
        0, abs=1e-3
    )


def fit_by_loops(unit, rater, said, prior, rounds):
    """Calculate the same equations, decision by decision."""
    decisions = list(zip(unit.tolist(), rater.tolist(), said.tolist(), strict=True))
    units = range(max(unit) + 1)
    raters = range(max(rater) + 1)
    of_unit = [[s for u, _, s in decisions if u == one] for one in units]
    common = sum((s - np.mean(group)) ** 2 for group in of_unit for s in group) / sum(
        len(group) - 1 for group in of_unit
    )
    bias = [0.0 for _ in raters]
    variance = [common for _ in raters]
    mean = float(np.mean(said))
    spread2 = float(np.var(said))
    for _ in range(rounds):
        truth = []
        doubt = []
        for one in units:
            own = [(s - bias[r], 1 / variance[r]) for u, r, s in decisions if u == one]
            total = 1 / spread2 + sum(p for _, p in own)
            truth.append((mean / spread2 + sum(s * p for s, p in own)) / total)
            doubt.append(1 / total)
        own = [[(u, s) for u, r, s in decisions if r == one] for one in raters]
        bias = [float(np.mean([s - truth[u] for u, s in mine])) for mine in own]
        weight = [len(mine) / variance[r] for r, mine in enumerate(own)]
        shift = sum(b * w for b, w in zip(bias, weight, strict=True)) / sum(weight)
        bias = [b - shift for b in bias]
        truth = [t + shift for t in truth]
        variance = [
            (sum((s - truth[u] - bias[r]) ** 2 + doubt[u] for u, s in mine) + prior * common)
            / (len(mine) + prior)
            for r, mine in enumerate(own)
        ]
        mean = float(np.mean(truth))
        spread2 = float(np.mean([(t - mean) ** 2 + d for t, d in zip(truth, doubt, strict=True)]))
    return truth, bias, variance


def test_fast_calculation_equals_the_simple_one():
    unit, rater, said, _ = simulated(units=40)
    found = scale_raters.fit_scale_raters(unit, rater, said)
    truth, bias, variance = fit_by_loops(unit, rater, said, scale_raters.PRIOR_DECISIONS, 300)
    assert found.truth == pytest.approx(truth, abs=1e-4)
    assert found.bias == pytest.approx(bias, abs=1e-4)
    assert found.variance == pytest.approx(variance, rel=1e-2)


def test_with_equal_noise_biases_are_the_differences_from_the_overall_mean():
    """With balanced data and equal noise, the additive model's estimate is each rater's mean minus
    the mean of all.
    """
    random = np.random.default_rng(3)
    truth = random.normal(0, 1, 400)
    said = (
        truth[:, None] + np.array([0.4, -0.1, -0.3])[None, :] + random.normal(0, 0.2, (400, 3))
    ).ravel()
    unit = np.repeat(np.arange(400), 3)
    rater = np.tile(np.arange(3), 400)
    found = scale_raters.fit_scale_raters(unit, rater, said)
    by_means = said.reshape(400, 3).mean(0) - said.mean()
    assert found.bias - found.bias.mean() == pytest.approx(by_means, abs=1e-6)


@pytest.mark.parametrize("said", [[0.5, 0.5, 0.5], [0.2], [0.1, 0.9]])
def test_few_decisions_of_one_rater_give_finite_numbers_and_no_bias(said):
    found = scale_raters.fit_scale_raters(
        np.arange(len(said)), np.zeros(len(said), int), np.array(said)
    )
    for array in (found.bias, found.variance, found.truth, found.deviation):
        assert np.isfinite(array).all()
    assert found.bias == pytest.approx([0])


def test_two_raters_who_always_agree_have_a_finite_precision():
    unit = np.array([0, 0, 1, 1])
    rater = np.array([0, 1, 0, 1])
    found = scale_raters.fit_scale_raters(unit, rater, np.array([0.2, 0.2, 0.8, 0.8]))
    assert np.isfinite(1 / found.variance).all()


def test_rater_who_was_shown_worse_replies_gets_no_bias():
    """Two equal raters without common units, one with worse replies: no bias can be inferred."""
    random = np.random.default_rng(2)
    said = np.concatenate([random.normal(0.3, 0.1, 60), random.normal(0.8, 0.1, 60)])
    found = scale_raters.fit_scale_raters(np.arange(120), np.repeat([0, 1], 60), said)
    assert found.bias == pytest.approx([0, 0])


def test_bias_is_estimated_from_common_units_only():
    """Ann and Ben share 40 units, where Ben rates .2 higher; only Ann rated 200 bad ones; Cem
    shares none.
    """
    random = np.random.default_rng(4)
    common = random.normal(0.6, 0.1, 40)
    unit = np.concatenate([np.arange(40), np.arange(40), np.arange(40, 240), np.arange(240, 300)])
    rater = np.repeat([0, 1, 0, 2], [40, 40, 200, 60])
    truth = np.concatenate(
        [common, common + 0.2, random.normal(0.2, 0.1, 200), random.normal(0.9, 0.05, 60)]
    )
    found = scale_raters.fit_scale_raters(unit, rater, truth + random.normal(0, 0.05, len(unit)))
    assert found.bias[1] - found.bias[0] == pytest.approx(0.2, abs=0.03) and found.bias[2] == 0
