"""The workers: explorer, scorer, refiner, trainer, coordinator. Only this package imports torch."""
