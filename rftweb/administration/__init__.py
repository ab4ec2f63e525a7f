"""The Django administration: theme (`look`), front page (`overview`), and pages without a model."""
