"""What the tests of encoders share: schemas in a real registry, and a registry's address that can go away or refuse."""

import base64
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from confluent_kafka import Message
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

from fencepost.message import Stored
from tests.brokers.kafka_kit import message

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "cents", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
    ],
}
ORDER_ID = "018f2f6e-6c63-7cc4-8c1a-5f0f3ac01d2e"
PLACED = {"id": ORDER_ID, "cents": 9007199254740993}


def order(number: int, topic: str, content: object = PLACED, **more: Any) -> Stored:
    """A message with a JSON payload."""
    return message(number, topic, key=f"key-{number}", payload=json.dumps(content).encode())._replace(**more)


def register(url: str, topic: str, schema: object, kind: str = "AVRO") -> int:
    """Make a schema the latest of the topic's subject; its number."""
    text = schema if isinstance(schema, str) else json.dumps(schema)
    with SchemaRegistryClient({"url": url}) as client:
        number: int = client.register_schema(f"{topic}-value", Schema(text, kind))
        return number


def with_field(name: str, kind: object, **more: object) -> dict[str, Any]:
    """ORDER with one more field."""
    return {**ORDER, "fields": [*ORDER["fields"], {"name": name, "type": kind, **more}]}


def proto(**fields: int) -> FileDescriptorProto:
    """A file with the message shop.Order, its fields by their types' numbers; and shop.Refund, which has an id."""
    file = FileDescriptorProto(name="default", package="shop", syntax="proto3")
    for kind, its in (("Order", fields), ("Refund", {"id": FieldDescriptorProto.TYPE_STRING})):
        made = file.message_type.add(name=kind)
        for number, (name, type_) in enumerate(its.items(), 1):
            made.field.add(name=name, number=number, type=type_, label=FieldDescriptorProto.LABEL_OPTIONAL)
    return file


def serialized(file: FileDescriptorProto) -> str:
    """A descriptor as registries keep it."""
    return base64.b64encode(file.SerializeToString()).decode()


def avro(url: str, record: Message) -> Any:
    """What confluent_kafka's own reader makes of a record."""
    with SchemaRegistryClient({"url": url}) as client:
        return AvroDeserializer(client)(record.value(), _context(record))


def protobuf(url: str, record: Message, file: FileDescriptorProto, kind: str = "Order") -> Any:
    """The same for Protobuf."""
    pool = DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    made = GetMessageClass(pool.FindMessageTypeByName(f"shop.{kind}"))
    with SchemaRegistryClient({"url": url}) as client:
        return ProtobufDeserializer(made, {}, client)(record.value(), _context(record))


def _context(record: Message) -> SerializationContext:
    return SerializationContext(record.topic() or "", MessageField.VALUE)


class Gate:
    """An address in front of the registry: passes requests on, counts them, and asks for a password where it is told.

    While it is not ``open``, no request gets an answer.
    """

    def __init__(self) -> None:
        self.url = ""
        self.user_info: str | None = None
        self.open = True
        self.requests = 0

    @property
    def _expected(self) -> str:
        return "Basic " + base64.b64encode((self.user_info or "").encode()).decode()

    def refuses(self, headers: Mapping[str, str]) -> bool:
        """Whether a request lacks the password."""
        return self.user_info is not None and headers.get("Authorization") != self._expected


@contextmanager
def gate(registry_url: str) -> Iterator[Gate]:
    """Stands in front of a registry until the block ends."""
    own, target = Gate(), urlsplit(registry_url)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            own.requests += 1
            if not own.open:
                self.close_connection = True
                return
            if own.refuses(dict(self.headers)):
                self._answer(401, b'{"error_code": 40101, "message": "Unauthorized"}')
                return
            link = HTTPConnection(target.hostname or "", target.port or 0, timeout=10)
            length = int(self.headers.get("Content-Length", 0))
            body = self.rfile.read(length) if length else None
            kind = {"Content-Type": self.headers.get("Content-Type", "application/json")}
            link.request(self.command, target.path + self.path, body, kind)
            answer = link.getresponse()
            self._answer(answer.status, answer.read())
            link.close()

        do_POST = do_GET  # noqa: N815 - the library calls it so

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    own.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield own
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
