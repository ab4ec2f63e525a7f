"""Every registered environment as an OpenEnv server, in which an outside client acts as the policy.

    the client                           this package
    GET …/metadata, /schema, /health  →  api (wire.py has the formats, access.py the permissions)
    WebSocket …/ws                    →  socket → frames → a Play: reset, step, state
    WebSocket …/mcp, POST …/mcp       →  socket, api → rpc → a Play: the tools begin and act

A connection is a session (`sessions`: rows that live as long as the connection), and each reset in
it is an Episode without a run, which is not trained on. Its environment is played as for a run: our
own classes and Gymnasium's in a separate process, services behind their address
(`apps.environments.pull`), and an environment that calls us takes the episode over REST as it takes
a run's (`pushed`).
"""
