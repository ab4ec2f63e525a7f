"""Each scorer of a run held against people's labels, continuously: figures, alarms, and what people are asked first."""
