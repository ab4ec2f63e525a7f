"""Unmodified agents: the policy appears to them as a model behind OpenAI's API.

Each call is a turn.

    the agent                     this package
    POST /v1/chat/completions  →  keys (the run and the episode) → parameters (checks them) →
                                  conversation (what is new since the last call) → turns (an
                                  observation) … the policy acts … → answers (its action)
    POST /v1/rl/…, /feedback   →  sessions, hearing: rewards of answers, and the end of the episode

In an agent's episode, the policy sees only the agent's messages: the task is given to the client
that starts a session.
"""
