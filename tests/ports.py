"""A reserved port, to pass to a server by number each time it is started."""

import socket


def kept_port() -> tuple[socket.socket, int]:
    """Return a socket that reserves a free port of the loopback, and the port: until the socket is
    closed, the kernel assigns the port to no other socket.

    The socket does not listen: servers that reuse addresses, as ours do, can, and connections are
    refused meanwhile.
    """
    keeper = socket.socket()
    keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    keeper.bind(("127.0.0.1", 0))
    return keeper, keeper.getsockname()[1]
