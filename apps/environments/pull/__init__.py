"""Environments that we call: services behind an address, and Gymnasium's by name.

A session plays one episode: `begin` asks for the first observation, `step` says what the policy did, `close` gives it back. What
goes wrong in between is a CallFailed whose words become the episode's reason; nothing here makes a number out of it.

    addresses.py    which addresses may be called, and the one machine that a session talks to
    exchanges.py    one HTTP request and its reply, bounded
    wording.py      a policy speaks text: what action that is, and how an observation reads
    http.py         reset/step/close services
    openenv.py      OpenEnv servers
    gymnasium.py    Gymnasium's environments, in a process of their own
    processes.py    a session with such a process, for who waits in an event loop
    sessions.py     which of them plays which kind
    registering.py  how one comes to be known, and whether it answers; forms.py: in the administration
    errors.py       what can go wrong
"""
