"""The loops: explorer, scorer, refiner, trainer, coordinator. Torch lives on this floor alone."""
