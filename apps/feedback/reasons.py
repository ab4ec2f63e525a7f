"""Why people pass an item over or flag a reply as broken: the reasons at hand, one digit each; own words are taken as well."""

SKIPS = ("I cannot tell", "It takes too long", "Not my language or field", "I do not want to read this")
FLAGS = ("Cut off or empty", "Not readable", "The task itself is broken", "Harmful or private")
