"""The rooms of rftweb, floors 1 to 6: imports and foreign keys go down only."""
