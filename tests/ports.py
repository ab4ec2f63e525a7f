"""A port of one's own, to give to a server by number, as often as it is started."""

import socket


def kept_port() -> tuple[socket.socket, int]:
    """A free port of the loopback and what keeps it: until that is closed, nobody is given the port
    who does not ask for it.

    Nobody listens there: servers that reuse addresses, as ours do, may; and who calls meanwhile is
    refused.
    """
    keeper = socket.socket()
    keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    keeper.bind(("127.0.0.1", 0))
    return keeper, keeper.getsockname()[1]
