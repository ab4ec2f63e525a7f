"""Every environment registered here, as an OpenEnv server: an outside client in the policy's seat.

    the client                             here
    GET …/metadata, /schema, /health    →  api (wire.py has the shapes, access.py says who may)
    WebSocket …/ws                      →  socket → frames → a Play: reset, step, state
    WebSocket …/mcp, POST …/mcp         →  socket, api → rpc → a Play: the tools begin and act

A connection is a session (`sessions`: rows that live as long as it), and each reset in it an Episode without a run, which nobody
trains on. Its environment is played as it is for a run: classes of ours and Gymnasium's in a process of their own, services behind
their address (`apps.environments.pull`), and one that calls us takes the episode over REST as it takes a run's (`pushed`).
"""
