"""Environments that we call: services behind an address, and Gymnasium's by name.

A session plays one episode: `begin` requests the first observation, `step` sends the policy's
action, `close` releases it. An error in between is a CallFailed, whose message becomes the
episode's reason; it is never turned into a number.

    addresses.py    which addresses may be called, and the one machine that a session connects to
    exchanges.py    one HTTP request and its reply, bounded
    wording.py      conversion between the policy's text, actions and observations
    http.py         reset/step/close services
    openenv.py      OpenEnv servers
    gymnasium.py    Gymnasium's environments, in a separate process
    processes.py    a session with such a process, for clients in an event loop
    sessions.py     the session class of each kind
    registering.py  registration and check of an environment; forms.py: in the administration
    errors.py       the errors
"""
