"""The servers we know, by name."""

from servers.apicurio import Apicurio
from servers.dynoxide import Dynoxide
from servers.elasticmq import ElasticMQ
from servers.kafka import Kafka
from servers.mariadb import MariaDB
from servers.mongo_java_server import MongoJavaServer
from servers.mosquitto import Mosquitto
from servers.moto import Moto
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
        Mosquitto(),
        Nats(),
        Kafka(),
        Apicurio(),
        Dynoxide(),
        ElasticMQ(),
        Moto(),
        SecantusDB(),
        MongoJavaServer(),
    )
}
