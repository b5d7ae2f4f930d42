"""Peers that misbehave on purpose: a receiver that says what a script tells it, and a proxy that reads the protocol
and cuts, holds, changes or forges what passes through it."""

import base64
import contextlib
import hashlib
import json
import socket
import sys
import threading
import time
import zlib

from harness import REPOSITORY

sys.path.insert(0, str(REPOSITORY / "Tools"))

from waybill_peer.wire import LIMITS, TAIL_MAX, digest  # noqa: E402


class Listener:
    """Accepts connections on a loopback port and serves each on a thread of its own."""

    def __init__(self, serve, port=0):
        self.listener = socket.create_server(("127.0.0.1", port), backlog=64)
        self.port = self.listener.getsockname()[1]
        self.serve, self.sockets, self.times = serve, [], []
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def address(self):
        return f"127.0.0.1:{self.port}"

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                connected = self.listener.accept()[0]
                connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self.sockets.append(connected)
                self.times.append(time.monotonic())
                threading.Thread(target=self.run, args=[connected], daemon=True).start()

    def run(self, connected):
        with contextlib.suppress(OSError, ValueError):
            self.serve(connected)
        hang_up(connected)

    def hang_up(self):
        """Ends every connection, and continues accepting."""
        for connected in self.sockets[:]:
            hang_up(connected)

    def close(self):
        hang_up(self.listener)
        self.hang_up()


def hang_up(connected):
    with contextlib.suppress(OSError):
        connected.shutdown(socket.SHUT_RDWR)
    connected.close()


def identity(name, end=0):
    """The members of READY by which an agent knows a receiver again: of one that has started once, long ago."""
    made = hashlib.sha256(name.encode()).hexdigest()
    incarnation, start = made[:32], made[32:48]
    return {"receiver": name, "incarnation": incarnation, "start": start, "end": end, "starts": [[start, 0]],
            "id": f"{name}~{incarnation}"}


def proof(stream, offset, tail):
    """Number and digest of the bytes below an offset, as `AT` and `SEALED` carry them."""
    return f"{len(tail)} {digest(stream, offset, tail) or '-'}"


class Streams:
    """What a false receiver holds that tells the truth about streams: where each stands, and its last bytes."""

    def __init__(self):
        self.offsets, self.tails, self.sealed = {}, {}, set()

    def proof(self, stream):
        return proof(stream, self.offsets.get(stream, 0), self.tails.get(stream, b""))

    def answers(self, session, words):
        """The lines that answer an `OPEN`, `BATCH`, `SKIP` or `SEAL` of a session."""
        stream = session.names[words[1]]
        if words[0] == "OPEN":
            lines = [f"AT {words[1]} {self.offsets.setdefault(stream, 0)} {self.proof(stream)} 0"]
            return [*lines, f"SEALED {words[1]} {self.proof(stream)} 0"] if stream in self.sealed else lines
        if int(words[2]) != self.offsets[stream]:
            return [f"NAK {words[1]} {self.offsets[stream]} gap the stream stands elsewhere"]
        if words[0] == "SEAL":
            self.sealed.add(stream)
            return [f"SEALED {words[1]} {self.proof(stream)} 0"]
        if words[0] == "BATCH":
            self.tails[stream] = (self.tails.get(stream, b"") + zlib.decompress(session.payload))[-TAIL_MAX:]
        else:
            self.tails[stream] = b"" if words[5] == "-" else base64.b64decode(words[5])
        self.offsets[stream] += int(words[3])
        return [f"ACK {words[1]} {self.offsets[stream]} 0"]


class Session:
    """An agent's connection, as a script of a false receiver sees it."""

    def __init__(self, connected):
        self.socket, self.reader = connected, connected.makefile("rb")
        # The streams' ids by their numbers, and the last batch's payload.
        self.names, self.payload = {}, b""

    def send(self, *pieces):
        self.socket.sendall(b"".join(piece if isinstance(piece, bytes) else piece.encode() + b"\n" for piece in pieces))

    def message(self):
        """The words of the next message, `PING`s left out; of nothing at the end."""
        while True:
            words = self.reader.readline().decode().split()
            if words and words[0] == "BATCH":
                self.payload = self.reader.read(int(words[5]))
            if words and words[0] == "OPEN":
                self.names[words[1]] = json.loads(" ".join(words[2:]))["stream"]
            if not words or words[0] != "PING":
                return words
            self.send("PONG " + words[1])

    def await_message(self, *wanted):
        """Reads on to a message of one of these words."""
        while words := self.message():
            if words[0] in wanted:
                return words
        raise OSError("the agent closed")

    def handshake(self, name="false", window=8 << 20, **limits):
        self.await_message("HELLO")
        self.send("READY " + json.dumps({
            "protocol": 1, **identity(name), "limits": {**LIMITS, **limits}, "window": window, "time": 0}))

    def opened(self, **ready):
        """Shakes hands and answers the first `OPEN` with the beginning; returns the stream's number."""
        self.handshake(**ready)
        number = self.await_message("OPEN")[1]
        self.send(f"AT {number} 0 0 - 0")
        return number

    def drain(self):
        """Takes everything and answers `PING`s alone."""
        while self.message():
            pass


class Passage:
    """One connection through a proxy: cuts both directions into messages and asks the proxy's rule about each.

    A rule gets the passage, the direction (`>` to the receiver, `<` to the agent), the words, and the bytes; it
    returns the bytes to pass on, or `None` to cut the connection. `cut` sends the bytes it is given first.
    """

    def __init__(self, proxy, agent, index):
        self.proxy, self.index, self.agent = proxy, index, agent
        self.receiver = socket.create_connection(("127.0.0.1", proxy.target), 10)
        self.receiver.settimeout(None)
        self.counts = {}
        self.lock = threading.Lock()

    def run(self):
        back = threading.Thread(target=self.carry, args=["<", self.receiver, self.agent], daemon=True)
        back.start()
        self.carry(">", self.agent, self.receiver)
        back.join()

    def carry(self, direction, source, target):
        reader = source.makefile("rb")
        with contextlib.suppress(OSError, ValueError):
            while line := reader.readline():
                words = line.decode().split()
                payload = reader.read(int(words[5])) if words[:1] == ["BATCH"] else b""
                key = direction + words[0]
                self.counts[key] = self.counts.get(key, 0) + 1
                passed = self.proxy.rule(self, direction, words, line + payload)
                if passed is None:
                    break
                if passed:
                    with self.lock:
                        target.sendall(passed)
        self.cut()

    def to_agent(self, data):
        """Says something to the agent that the receiver did not say."""
        with self.lock:
            self.agent.sendall(data)

    def cut(self):
        hang_up(self.agent)
        hang_up(self.receiver)


def pass_on(_passage, _direction, _words, data):
    return data


class Proxy(Listener):
    """Stands between an agent and a real receiver at `target`, a port; `rule` decides about each message."""

    def __init__(self, target, rule=pass_on, port=0):
        self.target, self.rule, self.passages = target, rule, []
        super().__init__(self.pass_through, port)

    def pass_through(self, agent):
        passage = Passage(self, agent, len(self.passages))
        self.passages.append(passage)
        passage.run()


def cpu_seconds(pid):
    """Processor time that a process has used so far."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100
