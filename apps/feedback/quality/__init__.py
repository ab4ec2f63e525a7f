"""How good people's decisions about a run are: agreement, raters, and what they dispute. For those who run the project."""
