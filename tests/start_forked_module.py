"""Run a module in a forked process and exit with its status: `start_forked_module.py SOCKET -m
MODULE …`. See tests/forked_modules.py.
"""

import array
import json
import os
import signal
import socket
import sys

PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main() -> None:
    asked = {
        "arguments": sys.argv[2:],
        "folder": os.getcwd(),
        "environment": dict(os.environ),
    }
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(sys.argv[1])
        files = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", (0, 1, 2)))
        connection.sendmsg([json.dumps(asked).encode()], [files])
        for number in PASSED_ON:
            signal.signal(number, lambda number, _: connection.send(bytes([number])))
        status = int(connection.recv(16))
    if status >= 0:
        os._exit(status)
    signal.signal(-status, signal.SIG_DFL)
    os.kill(os.getpid(), -status)


if __name__ == "__main__":
    main()
