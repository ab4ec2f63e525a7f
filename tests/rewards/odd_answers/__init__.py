"""Tables of answers in unusual forms: the task's answer, a reply, and its reward."""
