"""Any agent, unchanged: it takes the policy for a model behind OpenAI's interface, and each of its calls is a turn.

    the agent                        here
    POST /v1/chat/completions     →  keys (whose run, which episode) → asked (what can be honoured) → conversation (what is new
                                     since the last call) → turns (an observation) … the policy acts … → answers (its action)
    POST /v1/rl/…, /v1/feedback   →  sessions, hearing: what an answer earned, and that the episode is over

An episode of an agent shows the policy what the agent says and nothing else: the task is told to who starts a session.
"""
