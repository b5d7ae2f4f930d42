"""A hand-held end of a door's tunnel: a WebSocket (RFC 6455) in the place of a socket, which can also break its rules."""

import base64
import contextlib
import hashlib
import http.client
import io
import json
import os
import socket

from harness import patience

CONTINUED, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
FRAME_MAX = 64 << 10


def accept_of(key):
    """What a server answers to `Sec-WebSocket-Key`."""
    return base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()


def frame(opcode, payload=b"", is_last=True, is_masked=True, reserved=0, length=None):
    """A frame's bytes; `length` is told in the place of the payload's own."""
    length = len(payload) if length is None else length
    told = bytes([length]) if length < 126 else b"\x7e" + length.to_bytes(2, "big") if length < 1 << 16 else (
        b"\x7f" + length.to_bytes(8, "big"))
    head = bytes([is_last << 7 | reserved << 4 | opcode, is_masked << 7 | told[0]]) + told[1:]
    if not is_masked:
        return head + payload
    mask = os.urandom(4)
    whole = int.from_bytes((mask * (len(payload) // 4 + 1))[:len(payload)], "big")
    return head + mask + (int.from_bytes(payload, "big") ^ whole).to_bytes(len(payload), "big")


class Refused(ConnectionError):
    """The answer to a request that opened no tunnel."""

    def __init__(self, status, headers, body):
        super().__init__(f"{status} {body[:300]}")
        self.status, self.headers = status, headers
        self.told = json.loads(body) if body.startswith(b"{") else {}


class Ended(ConnectionError):
    """The connection ended where more was awaited."""


class Tunnel(io.RawIOBase):
    """Takes bytes and gives bytes, as a socket does; `code` is the one of the door's Close, once that has come."""

    def __init__(self, port, path="/v1/line", tls=None, source="127.0.0.1", method="GET", headers=None, first=b"", room=None):
        """`headers` replaces those of the handshake, `None` leaves one out; `first` follows it at once; `room` is that of
        the socket for what is not read yet."""
        self.socket = socket.socket()
        if room:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        self.socket.settimeout(patience(30))
        self.content, self.unread, self.pongs, self.code, self.is_over = b"", b"", [], None, False
        self.sent = self.received = 0
        try:
            self.socket.bind((source, 0))
            self.socket.connect(("127.0.0.1", port))
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.place = "%s:%d" % self.socket.getsockname()
            if tls:
                self.socket = tls.wrap_socket(self.socket, server_hostname="127.0.0.1")
            self.shake_hands(path, method, headers or {}, first)
        except BaseException:
            self.socket.close()
            raise

    def shake_hands(self, path, method, changes, first):
        key = base64.b64encode(os.urandom(16)).decode()
        headers = {
            "Host": "door", "Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": key, **changes}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items() if value is not None)]
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode() + first)
        while b"\r\n\r\n" not in self.content:
            self.receive()
        head, _, self.content = self.content.partition(b"\r\n\r\n")
        status, _, fields = head.partition(b"\r\n")
        answer = http.client.parse_headers(io.BytesIO(fields + b"\r\n\r\n"))
        if status.split()[1] != b"101":
            raise Refused(int(status.split()[1]), answer, self.exactly(int(answer.get("Content-Length", 0))))
        assert answer["Sec-WebSocket-Accept"] == accept_of(headers["Sec-WebSocket-Key"]), head
        assert answer["Upgrade"].lower() == "websocket" and answer["Connection"].lower() == "upgrade", head
        # Nothing that was offered is taken.
        assert not {"Sec-WebSocket-Extensions", "Sec-WebSocket-Protocol"}.intersection(answer.keys()), head

    # MARK: Frames

    def receive(self):
        piece = self.socket.recv(1 << 16)
        if not piece:
            raise Ended
        self.content += piece

    def exactly(self, count):
        while len(self.content) < count:
            self.receive()
        piece, self.content = self.content[:count], self.content[count:]
        return piece

    def frame(self):
        """The next frame's opcode and payload, or nothing at the end."""
        try:
            while len(self.content) < 2 or len(self.content) < self.head_length():
                self.receive()
            start = self.head_length()
            length = self.content[1] & 0x7F
            length = length if length < 126 else int.from_bytes(self.content[2:start], "big")
            while len(self.content) < start + length:
                self.receive()
        except (Ended, ConnectionResetError):
            if self.content:
                raise ConnectionResetError("the last frame is not whole") from None
            return None
        head = self.exactly(start)
        assert not head[0] & 0x70 and not head[1] & 0x80, f"a door's frame begins with {head.hex()}"
        assert head[0] & 0xF < CLOSE or head[0] & 0x80 and length < 126, f"a control frame begins with {head.hex()}"
        return head[0] & 0xF, self.exactly(length)

    def head_length(self):
        return 2 + {126: 2, 127: 8}.get(self.content[1] & 0x7F, 0)

    def send_frame(self, opcode, payload=b"", **changes):
        self.socket.sendall(frame(opcode, payload, **changes))

    # MARK: As a socket

    def settimeout(self, seconds):
        self.socket.settimeout(seconds)

    def sendall(self, data):
        for start in range(0, len(data), FRAME_MAX):
            self.send_frame(BINARY, data[start:start + FRAME_MAX])
            self.sent += len(data[start:start + FRAME_MAX])

    def recv(self, count):
        while not self.unread and not self.is_over:
            read = self.frame()
            if read is None or read[0] == CLOSE:
                self.is_over = True
                if read:
                    self.code = int.from_bytes(read[1][:2], "big") if read[1] else 1005
                    with contextlib.suppress(OSError):
                        self.send_frame(CLOSE, read[1][:2])
            elif read[0] == PING:
                self.send_frame(PONG, read[1])
            elif read[0] == PONG:
                self.pongs.append(read[1])
            else:
                assert read[0] == BINARY, f"a frame of the type {read[0]}"
                self.unread += read[1]
                self.received += len(read[1])
        piece, self.unread = self.unread[:count], self.unread[count:]
        return piece

    def readable(self):
        return True

    def readinto(self, buffer):
        piece = self.recv(len(buffer))
        buffer[:len(piece)] = piece
        return len(piece)

    def makefile(self, _mode):
        return io.BufferedReader(self)

    def end(self, seconds=20):
        """Reads to the end of the connection; returns what the receiver still said, and the code of the door's Close,
        behind which nothing comes. `None`: there was no Close."""
        self.settimeout(patience(seconds))
        said = b""
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            while piece := self.recv(1 << 16):
                said += piece
            rest = self.frame()
            assert rest is None, f"{rest} behind Close"
        return said, self.code

    def say_close(self, code=1000):
        self.send_frame(CLOSE, code.to_bytes(2, "big"))

    def close(self):
        """Ends the connection without Close, as a program that is killed."""
        self.socket.close()
        super().close()
