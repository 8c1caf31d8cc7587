"""Topics: which ones exist, creating those that are missing, and the compacted topic of the receipts.

Every method blocks: call them in a worker thread. They may be called from several threads at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from threading import Event
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # it exports them without saying so
    AclOperation,
    AdminClient,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
    TopicDescription,
)

from fencepost.brokers.kafka.deadline import Deadline
from fencepost.brokers.kafka.faults import OF_A_TOPIC, UNKNOWN_LIMIT, cause, family, fault, remedy_of, size_limits
from fencepost.brokers.kafka.settings import TOPIC_RULE, Settings, is_topic
from fencepost.errors import (
    AccessDenied,
    ConfigurationError,
    DeadlineExceeded,
    FixError,
    ParkError,
    SchemaMissing,
    Unavailable,
)

T = TypeVar("T")

_APPEARS_S = 5.0
"""How long a topic that was just created may take to be seen."""
_AUTO_CREATED_S = 1.0
"""The same where only the broker itself might create it: where it does not, every try costs this much."""
_LOOK_AGAIN_S = 0.05
_ASKED_S = 1.0
"""How long an answer is waited for that only makes an error clearer."""
_GRANT = "grant the relay's user Describe and Write on it; on the topic of the receipts also DescribeConfigs and Read"


class Topics:
    """What is known of the cluster's topics. ``admin`` gives the client, made when it is first needed.

    Who asks the client keeps it until he has the answer, whoever closes the broker meanwhile: librdkafka aborts the
    process where an answer comes while its client is ended.
    """

    def __init__(self, settings: Settings, admin: Callable[[], AdminClient], *, create: bool) -> None:
        self._settings, self._admin, self._create = settings, admin, create
        self._known: set[str] = set()
        self._pause = Event()  # never set: waiting for it is a sleep that does not hold the interpreter

    def unknown(self, names: Iterable[str]) -> set[str]:
        """Those that have not been seen yet."""
        return set(names) - self._known

    def forget(self, names: Iterable[str]) -> None:
        """Look them up again before they are used the next time."""
        self._known.difference_update(names)

    def find(self, names: Collection[str], deadline: Deadline) -> dict[str, ParkError]:
        """Make sure that topics can be written to, creating them where that is allowed; why, for each that cannot.

        Raises RetryError where nobody can say.
        """
        refused = {name: _illegal(name) for name in names if not is_topic(name)}
        missing = []
        for name, answer in self._describe([n for n in names if n not in refused], deadline).items():
            if isinstance(answer, TopicDescription):
                if _may(answer, AclOperation.WRITE):
                    self._known.add(name)
                else:
                    refused[name] = ParkError(f"the topic {name} may not be written to", remedy=_GRANT)
            elif family(answer.code()) is SchemaMissing:
                missing.append(name)
            else:
                refused[name] = _denied(name, answer)
        if self._create:
            refused |= self._create_all(missing, deadline)
        return refused | self._await([n for n in missing if n not in refused], deadline)

    def find_receipts(self, name: str, partition: int, deadline: Deadline) -> None:
        """Make sure that the compacted topic of the receipts exists and has the partition.

        Raises SchemaMissing where it may not be created, FixError where it is not compacted, AccessDenied, RetryError.
        """
        answer = self._describe([name], deadline)[name]
        if isinstance(answer, TopicDescription):
            if not (_may(answer, AclOperation.WRITE) and _may(answer, AclOperation.READ)):
                raise AccessDenied(f"the topic {name} of the receipts may not be read and written", remedy=_GRANT)
            self._check_compacted(name, deadline)
            if partition < len(answer.partitions):
                return
        elif family(answer.code()) is not SchemaMissing:
            raise fault(answer, f"looking up the topic of the receipts, {name}")
        exists = isinstance(answer, TopicDescription)
        if not self._create:
            raise self._missing_receipts(name, partition, exists=exists)
        self._make_receipts(name, partition + 1, deadline, exists=exists)

    @property
    def relay_bytes_max(self) -> int:
        """The relay's own limit of a message."""
        return self._settings.message_bytes_max

    def size_limits(self, name: str, deadline: Deadline) -> str:
        """What to do about messages that are too large, with both limits as they are; never raises.

        The topic's may be a secret to us: the right to read it (DescribeConfigs) is needed for nothing else.
        """
        try:
            topic = f"{int(self._setting(name, 'max.message.bytes', deadline.sooner(_ASKED_S))):,}"
        except (KafkaException, DeadlineExceeded, KeyError, ValueError):
            topic = UNKNOWN_LIMIT
        return size_limits(f"{self.relay_bytes_max:,}", topic)

    # -- the topic of the receipts -------------------------------------------------------------------------------------

    def _missing_receipts(self, name: str, partition: int, *, exists: bool) -> SchemaMissing:
        how = f"--alter --topic {name} --partitions {partition + 1}"
        if not exists:
            how = f"--create --topic {name} --partitions {partition + 1} --config cleanup.policy=compact"
        return SchemaMissing(
            f"the topic {name} of the receipts " + (f"has no partition {partition}" if exists else "does not exist"),
            remedy=f"kafka-topics.sh --bootstrap-server {self._settings.servers} {how}; or set create = true",
        )

    def _make_receipts(self, name: str, partitions: int, deadline: Deadline, *, exists: bool) -> None:
        doing = f"creating partition {partitions - 1} of the topic of the receipts, {name}"
        error = (
            self._add_partitions(name, partitions, deadline) if exists else self._add_topic(name, partitions, deadline)
        )
        if error is not None and error.code() == KafkaError.TOPIC_ALREADY_EXISTS:  # another lane was faster
            error = self._add_partitions(name, partitions, deadline)
        if error is not None and error.code() != KafkaError.INVALID_PARTITIONS:  # there are as many, or more
            raise fault(error, doing)
        appears = deadline.sooner(_APPEARS_S)
        while not self._has_partition(name, partitions - 1, deadline):
            if appears.over:
                raise Unavailable(f"Kafka, while {doing}: it does not appear")
            self._pause.wait(_LOOK_AGAIN_S)

    def _add_topic(self, name: str, partitions: int, deadline: Deadline) -> KafkaError | None:
        topic = NewTopic(name, partitions, self._settings.replication_factor, config={"cleanup.policy": "compact"})
        client = self._admin()
        return _error(client.create_topics([topic], request_timeout=deadline.left_s())[name], deadline)

    def _add_partitions(self, name: str, partitions: int, deadline: Deadline) -> KafkaError | None:
        more = NewPartitions(name, partitions)
        client = self._admin()
        return _error(client.create_partitions([more], request_timeout=deadline.left_s())[name], deadline)

    def _has_partition(self, name: str, partition: int, deadline: Deadline) -> bool:
        answer = self._describe([name], deadline)[name]
        return isinstance(answer, TopicDescription) and partition < len(answer.partitions)

    def _check_compacted(self, name: str, deadline: Deadline) -> None:
        try:
            policy = self._setting(name, "cleanup.policy", deadline)
        except KafkaException as exception:
            raise fault(cause(exception), f"reading the settings of the topic of the receipts, {name}") from exception
        if policy != "compact":
            raise ConfigurationError(
                f"the topic {name} of the receipts has cleanup.policy={policy}: receipts would be lost with time",
                remedy=f"kafka-configs.sh --bootstrap-server {self._settings.servers} --alter --entity-type topics"
                f" --entity-name {name} --add-config cleanup.policy=compact; or name another topic as receipts_topic",
            )

    def _setting(self, topic: str, setting: str, deadline: Deadline) -> str:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        client = self._admin()
        asked = client.describe_configs([resource], request_timeout=deadline.left_s())
        return str(_result(asked[resource], deadline)[setting].value)

    # -- topics of messages --------------------------------------------------------------------------------------------

    def _describe(self, names: Sequence[str], deadline: Deadline) -> dict[str, TopicDescription | KafkaError]:
        """Unlike a look at the metadata, this creates nothing."""
        if not names:
            return {}
        client = self._admin()
        asked = client.describe_topics(
            TopicCollection(list(names)), include_authorized_operations=True, request_timeout=deadline.left_s()
        )
        answers: dict[str, TopicDescription | KafkaError] = {}
        for name, future in asked.items():
            try:
                answers[name] = _result(future, deadline)
            except KafkaException as exception:
                error = cause(exception)
                if not issubclass(family(error.code()), FixError | ParkError):
                    raise fault(error, "looking up topics") from exception
                answers[name] = error
        return answers

    def _create_all(self, names: Sequence[str], deadline: Deadline) -> dict[str, ParkError]:
        """Create topics; why, for each that the cluster does not create."""
        if not names:
            return {}
        own = self._settings
        topics = [NewTopic(name, own.partitions, own.replication_factor) for name in names]
        client, refused = self._admin(), {}
        for name, future in client.create_topics(topics, request_timeout=deadline.left_s()).items():
            error = _error(future, deadline)
            if error is None or error.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                continue
            if not issubclass(family(error.code()), FixError | ParkError):
                raise fault(error, f"creating the topic {name}")
            refused[name] = ParkError(
                f"the topic {name} does not exist and cannot be created: {error.str()} ({error.name()})",
                remedy="create it, or let the relay create it (its rights, partitions, replication_factor)",
            )
        return refused

    def _await(self, names: Sequence[str], deadline: Deadline) -> dict[str, ParkError]:
        """Wait until topics are seen; why, for each that is not."""
        appears = deadline.sooner(_APPEARS_S if self._create else _AUTO_CREATED_S)
        wanted = set(names)
        while wanted and not appears.over:
            wanted = {name for name in wanted if not self._appeared(name, appears)}
            self._known.update(set(names) - wanted)
            if wanted:
                self._pause.wait(_LOOK_AGAIN_S)
        return {
            name: ParkError(
                f"there is no topic {name}, and the broker does not create it by itself",
                remedy="create it, or set create = true so that the relay does",
            )
            for name in wanted
        }

    def _appeared(self, name: str, deadline: Deadline) -> bool:
        """Look at the topic's metadata, which makes a broker create it where its auto.create.topics.enable is on."""
        try:
            found = self._admin().list_topics(name, timeout=deadline.left_s()).topics[name]
        except KafkaException as exception:
            raise fault(cause(exception), f"looking up the topic {name}") from exception
        return found.error is None and len(found.partitions) > 0


def _illegal(name: str) -> ParkError:
    return ParkError(f"Kafka allows no topic {name[:300]!r}", remedy=TOPIC_RULE, at_once=True)


def _denied(name: str, error: KafkaError) -> ParkError:
    remedy = _GRANT if error.code() in OF_A_TOPIC else remedy_of(error.code())
    return ParkError(f"the topic {name} cannot be used: {error.str()} ({error.name()})", remedy=remedy)


def _may(topic: TopicDescription, operation: AclOperation) -> bool:
    """False where the server says that we may not. An old one says nothing."""
    return not topic.authorized_operations or operation in topic.authorized_operations


def _error(future: Future[None], deadline: Deadline) -> KafkaError | None:
    try:
        _result(future, deadline)
    except KafkaException as exception:
        return cause(exception)
    return None


def _result(future: Future[T], deadline: Deadline) -> T:
    """The result; the request has a deadline of its own, this one is for a client that does not keep it."""
    try:
        return future.result(deadline.left_s() + 1)
    except FutureTimeoutError:
        raise DeadlineExceeded("Kafka gave no answer about its topics in time") from None
