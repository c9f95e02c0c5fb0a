"""Connections between processes that prove to each other that they have the same key, before either says anything.

The connecting process sends a nonce, gets one, and sends its statement with a proof of key, nonces and statement. The answer is
encrypted and proves the same key: of a connection that is listened to or recorded nothing can be used again. A stranger learns
nothing, and holds one of a few descriptors for a few seconds at most.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import secrets
import selectors
import socket
import struct
import time
from typing import NamedTuple, Optional

import numpy as np

_MAGIC = b"ASCENDH1"
_NONCE = 32
_PROOF = 32
_LENGTH = struct.Struct("<I")
STRANGERS = 32  # connections at the same time that have not proved the key
PATIENCE = 10.0  # seconds that each of them has
_PAUSE = 0.05  # seconds until the next try where there are no descriptors left
_CREDENTIALS = struct.Struct("3i")


class HandshakeEnded(ConnectionError):
    """The connection has ended in the middle of the handshake."""


class ProvenSession(NamedTuple):
    """What two processes share that have proved the key to each other; the connecting one's statement."""

    secret: bytes
    statement: bytes

    @classmethod
    def of(cls, key: bytes, nonces: bytes, statement: bytes) -> ProvenSession:
        return cls(hmac.digest(key, b"session" + nonces + statement, "sha256"), statement)

    def proof(self) -> bytes:
        """The proof of the connecting process."""
        return hmac.digest(self.secret, b"statement", "sha256")

    def seal(self, answer: bytes) -> bytes:
        """The one answer of a session, encrypted, with a proof."""
        text = self._cipher(answer)
        return _LENGTH.pack(len(text)) + text + hmac.digest(self.secret, b"answer" + text, "sha256")

    def receive(self, connection: socket.socket) -> bytes:
        """The answer; HandshakeEnded where it is not from a process that has the key."""
        (length,) = _LENGTH.unpack(_read(connection, _LENGTH.size))
        if length > 1 << 20:
            raise HandshakeEnded("an answer is too long")
        text, proof = _read(connection, length), _read(connection, _PROOF)
        if not hmac.compare_digest(proof, hmac.digest(self.secret, b"answer" + text, "sha256")):
            raise HandshakeEnded("an answer has a wrong proof")
        return self._cipher(text)

    def _cipher(self, text: bytes) -> bytes:
        stream = hashlib.shake_256(b"answer" + self.secret).digest(len(text))
        return (np.frombuffer(text, np.uint8) ^ np.frombuffer(stream, np.uint8)).tobytes()


def prove(connection: socket.socket, key: bytes, statement: bytes) -> ProvenSession:
    """The part of the process that connects. HandshakeEnded, TimeoutError."""
    nonce = secrets.token_bytes(_NONCE)
    try:
        connection.sendall(_MAGIC + nonce)
        session = ProvenSession.of(key, nonce + _read(connection, _NONCE), statement)
        connection.sendall(statement + session.proof())
    except (BrokenPipeError, ConnectionResetError) as error:
        raise HandshakeEnded(str(error)) from None
    return session


def user_of(connection: socket.socket) -> int:
    """The user of the process at the other end, on this host."""
    return int(_CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))[1])


def _read(connection: socket.socket, nbytes: int) -> bytes:
    data = b""
    while len(data) < nbytes:
        try:
            more = connection.recv(nbytes - len(data))
        except ConnectionResetError:
            more = b""
        if not more:
            raise HandshakeEnded("the connection has ended")
        data += more
    return data


class _Stranger:
    """A connection that has not proved the key."""

    def __init__(self) -> None:
        self.deadline = time.monotonic() + PATIENCE
        self.heard = b""
        self.nonces = b""  # both, once it has sent its own


class Strangers:
    """Connections to a listener that have not proved the key, registered with the same selector as the listener."""

    def __init__(
        self,
        selector: selectors.BaseSelector,
        listener: socket.socket,
        key: bytes,
        statement_bytes: int,
        user: Optional[int] = None,
    ) -> None:
        """``user``: the only user that may connect, where all processes are on this host."""
        self._selector, self._listener, self._key, self._user = selector, listener, key, user
        self._proven = statement_bytes + _PROOF
        self._strangers: dict[socket.socket, _Stranger] = {}
        listener.setblocking(False)
        selector.register(listener, selectors.EVENT_READ)

    def __contains__(self, connection: object) -> bool:
        return connection in self._strangers

    def accept(self) -> None:
        """Accepts one connection. Where there are too many, it replaces one that has sent nothing."""
        try:
            connection, _ = self._listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM) and not self._drop_one():
                time.sleep(_PAUSE)
            return
        connection.setblocking(False)
        if self._user is not None and user_of(connection) != self._user:
            connection.close()
            return
        if len(self._strangers) >= STRANGERS:
            self._drop_one()
        self._strangers[connection] = _Stranger()
        self._selector.register(connection, selectors.EVENT_READ)

    def read(self, connection: socket.socket) -> Optional[ProvenSession]:
        """The session of a connection that has proved the key now; it is removed from the strangers."""
        stranger = self._strangers[connection]
        wanted = self._proven if stranger.nonces else len(_MAGIC) + _NONCE
        try:
            data = connection.recv(wanted - len(stranger.heard))
        except BlockingIOError:
            return None
        except OSError:
            data = b""
        stranger.heard += data
        is_right = stranger.nonces or stranger.heard[: len(_MAGIC)] == _MAGIC[: len(stranger.heard)]
        if not data or not is_right:
            self._drop(connection)
        elif len(stranger.heard) == wanted and not stranger.nonces:
            nonce = secrets.token_bytes(_NONCE)
            stranger.nonces, stranger.heard = stranger.heard[len(_MAGIC) :] + nonce, b""
            with contextlib.suppress(OSError):  # it has left, which the selector tells
                connection.sendall(nonce)
        elif len(stranger.heard) == wanted:
            session = ProvenSession.of(self._key, stranger.nonces, stranger.heard[:-_PROOF])
            if hmac.compare_digest(stranger.heard[-_PROOF:], session.proof()):
                self._selector.unregister(connection)
                del self._strangers[connection]
                return session
            self._drop(connection)
        return None

    def expire(self) -> None:
        """Ends the connections that have had their time; to be called every second or so."""
        now = time.monotonic()
        for connection in [c for c, stranger in self._strangers.items() if stranger.deadline < now]:
            self._drop(connection)

    def close(self) -> None:
        """Ends their connections and the listener."""
        for connection in list(self._strangers):
            self._drop(connection)
        self._selector.unregister(self._listener)
        self._listener.close()

    def _drop_one(self) -> bool:
        """Drops the first connection that has sent nothing, else the first."""
        silent = (c for c, stranger in self._strangers.items() if not stranger.heard and not stranger.nonces)
        chosen = next(silent, next(iter(self._strangers), None))
        if chosen is not None:
            self._drop(chosen)
        return chosen is not None

    def _drop(self, connection: socket.socket) -> None:
        self._selector.unregister(connection)
        del self._strangers[connection]
        connection.close()
