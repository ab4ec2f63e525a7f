"""Scalar heads for rater models: trained in a separate process, used by the refiner."""
