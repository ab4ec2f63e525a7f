"""Bayesian regression compared with slow, direct versions: dense inverses, grids and textbook
formulas.
"""

import numpy as np
import pytest

from apps.feedback.rater_model.linear import STEEPNESS, Decisions, Order, fit_posterior


def drawn(
    n: int, width: int, seed: int = 0, noise: float = 0.1
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    chance = np.random.default_rng(seed)
    table = (chance.random((n, width)) < 0.3).astype(float)
    weights = chance.normal(0, 0.2, width)
    return table, 0.5 + table @ weights + chance.normal(0, noise, n), weights


@pytest.mark.parametrize(("n", "width"), [(12, 30), (60, 8)])
def test_posterior_matches_dense_matrices(n, width):
    table, values, _ = drawn(n, width)
    found = fit_posterior(Decisions(table, values))
    x = table - table.mean(0)
    y = values - values.mean()
    precision = found.prior * np.eye(width) + x.T @ x / found.noise
    weights = np.linalg.solve(precision, x.T @ y / found.noise)
    asked = np.random.default_rng(1).random((5, width))
    away = asked - table.mean(0)
    variance = np.einsum("ij,jk,ik->i", away, np.linalg.inv(precision), away) + found.noise / n
    mean, deviation = found.predict(asked)
    assert mean == pytest.approx(values.mean() + away @ weights)
    assert deviation == pytest.approx(np.sqrt(variance))


def test_noise_and_prior_are_estimated_from_the_data():
    quiet, loud = (
        fit_posterior(Decisions(*drawn(300, 20, noise=noise)[:2])) for noise in (0.05, 0.3)
    )
    assert quiet.noise == pytest.approx(0.05**2, rel=0.3) and loud.noise == pytest.approx(
        0.3**2, rel=0.3
    )
    assert 1 / quiet.prior == pytest.approx(0.2**2, rel=0.7)


def test_one_rating_moves_the_mean_and_leaves_a_large_deviation():
    found = fit_posterior(Decisions(np.array([[1.0, 0.0]]), np.array([0.9])))
    mean, deviation = found.predict(np.array([[1.0, 0.0], [0.0, 1.0]]))
    assert mean == pytest.approx([0.9, 0.9]) and (deviation > 0.1).all()


def test_weight_of_two_equals_the_rating_twice():
    table, values, _ = drawn(10, 4)
    twice = fit_posterior(Decisions(np.vstack([table, table[:1]]), np.append(values, values[0])))
    centre = (table.sum(0) + table[0]) / 11
    weighed = fit_posterior(Decisions(table, values, weights=np.array([2.0] + [1.0] * 9)))
    assert weighed.centre == pytest.approx(centre) and weighed.intercept == pytest.approx(
        twice.intercept
    )


def test_more_ratings_reduce_the_deviation():
    asked = np.ones((1, 6))
    deviations = [
        fit_posterior(Decisions(*drawn(n, 6)[:2])).predict(asked)[1][0] for n in (10, 100, 1000)
    ]
    assert deviations[0] > deviations[1] > deviations[2]


def test_unknown_word_adds_the_variance_of_the_prior():
    table, values, _ = drawn(40, 6)
    found = fit_posterior(Decisions(table, values))
    _, known = found.predict(table[:1])
    _, doubted = found.predict(table[:1], np.array([2.0]))
    assert doubted[0] ** 2 == pytest.approx(known[0] ** 2 + 2 / found.prior)


def test_comparisons_alone_find_the_maximum_of_the_plackett_luce_posterior():
    """Compare the most probable weight of one column with a fine grid."""
    table = np.array([[0.0], [1.0], [0.5]])
    orders = [Order(1, (0, 2)), Order(2, (0,)), Order(0, (1,), 0.5)]
    found = fit_posterior(Decisions(table, np.zeros(0), orders))
    grid = np.linspace(-2, 2, 40_001)
    value = -found.prior * grid**2 / 2
    for order in orders:
        rows = STEEPNESS * table[[order.better, *order.worse]] @ grid[None, :]
        value += order.weight * (rows[0] - np.log(np.exp(rows).sum(0)))
    assert found.weights[0] == pytest.approx(grid[value.argmax()], abs=1e-4)


def test_comparisons_and_numbers_share_one_scale():
    table, values, _ = drawn(80, 5)
    alone = fit_posterior(Decisions(table, values))
    more = np.vstack([table, [[1, 0, 0, 0, 0], [0, 0, 0, 0, 0]]])
    raised = fit_posterior(Decisions(more, values, [Order(80, (81,))] * 30))
    assert raised.weights[0] > alone.weights[0]
    assert raised.predict(more)[1].shape == (82,)
