"""What a language model is asked as a judge, and what its words are read as. The asking itself is workers/judging.py."""
