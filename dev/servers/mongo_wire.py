"""The one question of MongoDB's protocol that tells whether a server would serve a client now."""

import struct

from servers.server import connection, receive

# A BSON document {isMaster: 1, $db: "admin"}, in a message (operation 2013) of one section.
_FIELDS = b"\x10isMaster\x00\x01\x00\x00\x00" + b"\x02$db\x00\x06\x00\x00\x00admin\x00"
_DOCUMENT = struct.pack("<i", len(_FIELDS) + 5) + _FIELDS + b"\x00"
_BODY = struct.pack("<i", 0) + b"\x00" + _DOCUMENT
_QUESTION = struct.pack("<iiii", len(_BODY) + 16, 1, 0, 2013) + _BODY


def is_answered(port: int) -> bool:
    """Whether the server answers that it takes writes. Raises OSError when nobody listens or answers."""
    with connection(port) as link:
        link.sendall(_QUESTION)
        (length,) = struct.unpack("<i", receive(link, 4))
        answer = receive(link, length - 4)
        return b"ismaster\x00\x01" in answer or b"isWritablePrimary\x00\x01" in answer
