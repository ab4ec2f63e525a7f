"""Statistics of what people decided: small functions of arrays, each tested against a published example or a known truth."""
