"""The servers we know, by name."""

from servers.dynoxide import Dynoxide
from servers.kafka import Kafka
from servers.mariadb import MariaDB
from servers.mongo_java_server import MongoJavaServer
from servers.nats import Nats
from servers.postgresql import PostgreSQL
from servers.rabbitmq import RabbitMQ
from servers.redis import Redis
from servers.secantusdb import SecantusDB
from servers.server import Server

SERVERS: dict[str, Server] = {
    server.name: server
    for server in (
        PostgreSQL(),
        MariaDB(),
        Redis(),
        RabbitMQ(),
        Nats(),
        Kafka(),
        Dynoxide(),
        SecantusDB(),
        MongoJavaServer(),
    )
}
