"""Scalar heads for rater models: trained beside the refiner in a process of their own, asked by the refiner."""
