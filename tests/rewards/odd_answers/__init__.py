"""Tables of answers in odd forms: the task's answer, a reply, and what it is worth."""
