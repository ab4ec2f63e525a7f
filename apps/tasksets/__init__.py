"""What may be asked: tasks and the sets they come in."""
