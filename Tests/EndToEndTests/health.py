"""Asks receivers and agents how they are doing: over TCP, and at a UNIX socket."""

import http.client
import json
import socket

from harness import patience, run, until


class SocketConnection(http.client.HTTPConnection):
    """HTTP over a UNIX socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=patience(20))
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def ask(place, path="/status", headers=None, method="GET"):
    """The code, the headers and the text of an answer of a port or a socket's path; `None` while nothing answers."""
    connection = (http.client.HTTPConnection("127.0.0.1", place, timeout=patience(20)) if isinstance(place, int)
                  else SocketConnection(place))
    try:
        connection.request(method, path, headers=headers or {})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()
    except OSError:
        return None
    finally:
        connection.close()


def status(place):
    code, headers, text = ask(place)
    assert (code, headers["Content-Type"]) == (200, "application/json"), (code, text)
    return json.loads(text)


def ready(place):
    """The code and the lines of `/readyz`; `None` while nothing answers."""
    answer = ask(place, "/readyz")
    return answer and (answer[0], answer[2].splitlines())


def until_ready(place):
    until(lambda: ready(place) == (200, ["ready"]), 30, f"{place} is ready")


def shown(*arguments, env=None):
    """The exit code and the lines of `waybill status`."""
    result = run("status", *arguments, env=env)
    assert not result.stderr, result.stderr
    return result.returncode, result.stdout.decode().splitlines()
