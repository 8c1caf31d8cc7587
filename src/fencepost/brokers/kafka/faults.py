"""From librdkafka's errors to the families of fencepost.errors."""

from __future__ import annotations

import re
from collections.abc import Iterable

from confluent_kafka import KafkaError, KafkaException

from fencepost.errors import (
    AccessDenied,
    ConfigurationError,
    ConnectionLost,
    DeadlineExceeded,
    Fenced,
    FencepostError,
    GuaranteeUnavailable,
    ParkError,
    SchemaMissing,
    Unavailable,
)

_NAMES: dict[type[FencepostError], str] = {
    AccessDenied: """
        _AUTHENTICATION _SSL CLUSTER_AUTHORIZATION_FAILED DELEGATION_TOKEN_AUTHORIZATION_FAILED
        DELEGATION_TOKEN_AUTH_DISABLED DELEGATION_TOKEN_EXPIRED DELEGATION_TOKEN_NOT_FOUND
        DELEGATION_TOKEN_OWNER_MISMATCH DELEGATION_TOKEN_REQUEST_NOT_ALLOWED GROUP_AUTHORIZATION_FAILED
        ILLEGAL_SASL_STATE INVALID_PRINCIPAL_TYPE PRINCIPAL_DESERIALIZATION_FAILURE SASL_AUTHENTICATION_FAILED
        SECURITY_DISABLED TOPIC_AUTHORIZATION_FAILED TRANSACTIONAL_ID_AUTHORIZATION_FAILED UNACCEPTABLE_CREDENTIAL
        UNSUPPORTED_SASL_MECHANISM""",
    SchemaMissing: """
        _UNKNOWN_PARTITION _UNKNOWN_TOPIC INCONSISTENT_TOPIC_ID UNKNOWN_TOPIC_ID UNKNOWN_TOPIC_OR_PART""",
    GuaranteeUnavailable: """
        _NOT_IMPLEMENTED _UNSUPPORTED_FEATURE UNSUPPORTED_ENDPOINT_TYPE UNSUPPORTED_FOR_MESSAGE_FORMAT
        UNSUPPORTED_VERSION""",
    ConfigurationError: """
        _INVALID_ARG _INVALID_TYPE _NOT_CONFIGURED _UNKNOWN_PROTOCOL FEATURE_UPDATE_FAILED INVALID_CONFIG
        INVALID_GROUP_ID INVALID_PARTITIONS INVALID_REPLICATION_FACTOR INVALID_REPLICA_ASSIGNMENT INVALID_REQUEST
        INVALID_REQUIRED_ACKS INVALID_SESSION_TIMEOUT INVALID_TRANSACTION_TIMEOUT MISMATCHED_ENDPOINT_TYPE
        POLICY_VIOLATION TOPIC_DELETION_DISABLED UNSUPPORTED_COMPRESSION_TYPE""",
    ParkError: """
        INVALID_MSG_SIZE INVALID_RECORD INVALID_TIMESTAMP MSG_SIZE_TOO_LARGE RECORD_LIST_TOO_LARGE TOPIC_EXCEPTION""",
    Fenced: "_FENCED INVALID_PRODUCER_EPOCH PRODUCER_FENCED",
    DeadlineExceeded: "_MSG_TIMED_OUT _TIMED_OUT _TIMED_OUT_QUEUE REQUEST_TIMED_OUT",
    # The producer, or its transaction, is of no use any more: a new take-over tells what happened.
    ConnectionLost: """
        _CONFLICT _DESTROY _FATAL _GAPLESS_GUARANTEE _INCONSISTENT _PREV_IN_PROGRESS _PURGE_INFLIGHT _PURGE_QUEUE _STATE
        DUPLICATE_SEQUENCE_NUMBER INVALID_PRODUCER_ID_MAPPING INVALID_TXN_STATE OUT_OF_ORDER_SEQUENCE_NUMBER
        TRANSACTION_ABORTABLE UNKNOWN_PRODUCER_ID""",
    # The cluster cannot serve now, or something happened that this client never asks for: wait and try again.
    Unavailable: """
        _ALL_BROKERS_DOWN _APPLICATION _ASSIGNMENT_LOST _ASSIGN_PARTITIONS _AUTO_OFFSET_RESET _BAD_COMPRESSION _BAD_MSG
        _CRIT_SYS_RESOURCE _DESTROY_BROKER _EXISTING_SUBSCRIPTION _FAIL _FS _INTR _INVALID_DIFFERENT_RECORD
        _IN_PROGRESS _ISR_INSUFF _KEY_DESERIALIZATION _KEY_SERIALIZATION _LOG_TRUNCATION _MAX_POLL_EXCEEDED _NODE_UPDATE
        _NOENT _NOOP _NO_OFFSET _OUTDATED _PARTIAL _PARTITION_EOF _QUEUE_FULL _READ_ONLY _RESOLVE _RETRY
        _REVOKE_PARTITIONS _TRANSPORT _UNDERFLOW _UNKNOWN_BROKER _UNKNOWN_GROUP _VALUE_DESERIALIZATION
        _VALUE_SERIALIZATION _WAIT_CACHE _WAIT_COORD BROKER_NOT_AVAILABLE CONCURRENT_TRANSACTIONS
        COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE DUPLICATE_RESOURCE DUPLICATE_VOTER ELECTION_NOT_NEEDED
        ELIGIBLE_LEADERS_NOT_AVAILABLE FENCED_INSTANCE_ID FENCED_LEADER_EPOCH FENCED_MEMBER_EPOCH FENCED_STATE_EPOCH
        FETCH_SESSION_ID_NOT_FOUND GROUP_ID_NOT_FOUND GROUP_MAX_SIZE_REACHED GROUP_SUBSCRIBED_TO_TOPIC
        ILLEGAL_GENERATION INCONSISTENT_GROUP_PROTOCOL INCONSISTENT_VOTER_SET INVALID_COMMIT_OFFSET_SIZE
        INVALID_FETCH_SESSION_EPOCH INVALID_MSG INVALID_RECORD_STATE INVALID_REGISTRATION INVALID_REGULAR_EXPRESSION
        INVALID_SHARE_SESSION_EPOCH INVALID_UPDATE_VERSION INVALID_VOTER_KEY KAFKA_STORAGE_ERROR LEADER_NOT_AVAILABLE
        LISTENER_NOT_FOUND LOG_DIR_NOT_FOUND MEMBER_ID_REQUIRED NETWORK_EXCEPTION NON_EMPTY_GROUP NOT_CONTROLLER
        NOT_COORDINATOR NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND NOT_LEADER_FOR_PARTITION
        NO_REASSIGNMENT_IN_PROGRESS OFFSET_METADATA_TOO_LARGE OFFSET_NOT_AVAILABLE OFFSET_OUT_OF_RANGE
        OPERATION_NOT_ATTEMPTED PREFERRED_LEADER_NOT_AVAILABLE REASSIGNMENT_IN_PROGRESS REBALANCE_IN_PROGRESS
        REBOOTSTRAP_REQUIRED REPLICA_NOT_AVAILABLE RESOURCE_NOT_FOUND SHARE_SESSION_LIMIT_REACHED
        SHARE_SESSION_NOT_FOUND STALE_BROKER_EPOCH STALE_CTRL_EPOCH STALE_MEMBER_EPOCH STREAMS_INVALID_TOPOLOGY
        STREAMS_INVALID_TOPOLOGY_EPOCH STREAMS_TOPOLOGY_FENCED TELEMETRY_TOO_LARGE THROTTLING_QUOTA_EXCEEDED
        TOPIC_ALREADY_EXISTS TRANSACTION_COORDINATOR_FENCED UNKNOWN UNKNOWN_CONTROLLER_ID UNKNOWN_LEADER_EPOCH
        UNKNOWN_MEMBER_ID UNKNOWN_SUBSCRIPTION_ID UNRELEASED_INSTANCE_ID UNSTABLE_OFFSET_COMMIT UNSUPPORTED_ASSIGNOR
        VOTER_NOT_FOUND""",
}

_LOGIN = "check security.protocol, sasl.mechanism, sasl.username and sasl.password, and ssl.ca.location"
_NETWORK = "is the cluster running? check the hosts and ports in the URL, and that security.protocol fits that listener"
_STRANGER = "what answers there may be no Kafka"
ADVERTISED = f"{_NETWORK}; brokers must be reachable under the names of their advertised.listeners too; or {_STRANGER}"


def size_limits(relay: str, topic: str) -> str:
    """What a person can do about a message that is too large. The arguments say how large each limit is."""
    return (
        f"two settings limit it: message.max.bytes of the relay (in [broker], {relay}) and max.message.bytes of the"
        f" topic ({topic}); they count key, headers and framing too. Outbox(max_bytes=...) refuses such a message when"
        " it is added"
    )


UNKNOWN_LIMIT = "1,048,588 unless it is set"
_TOO_LARGE = size_limits("1,000,000 unless it is set", UNKNOWN_LIMIT)

_REMEDIES: dict[type[FencepostError], str] = {
    AccessDenied: (
        "check the user's rights: Describe and Write on the topics; Describe, DescribeConfigs, Read and Write on the"
        " topic of the receipts; Describe and Write on the transactional ids that begin with fencepost."
    ),
    GuaranteeUnavailable: "transactions need Kafka 2.5 or newer, or a server that speaks its protocol to that extent",
    SchemaMissing: "create the topic, or set create = true so that the relay does",
}

_REMEDIES_BY_NAME = {
    "_ALL_BROKERS_DOWN": ADVERTISED,
    "_AUTHENTICATION": _LOGIN,
    "_BAD_MSG": f"{_NETWORK}; {_STRANGER}",
    "_RESOLVE": "check the names of the hosts in the URL, and those in the brokers' advertised.listeners",
    "_SSL": _LOGIN,
    "_TIMED_OUT": ADVERTISED,
    "_TRANSPORT": _NETWORK,
    "ILLEGAL_SASL_STATE": _LOGIN,
    "INVALID_PARTITIONS": "set partitions to a number from 1, or leave it out",
    "INVALID_RECORD": (
        "a compacted topic takes no message without a key: give the message one (key=...), or send it to another topic"
    ),
    "INVALID_REPLICATION_FACTOR": "set replication_factor to at most the number of brokers",
    "INVALID_TIMESTAMP": "compare the clocks of the relay and of the brokers",
    "INVALID_TRANSACTION_TIMEOUT": "lower timeout_s: twice that is more than the broker's transaction.max.timeout.ms",
    "MSG_SIZE_TOO_LARGE": _TOO_LARGE,
    "NOT_ENOUGH_REPLICAS": "start the brokers that are missing, or lower the topic's min.insync.replicas",
    "NOT_ENOUGH_REPLICAS_AFTER_APPEND": "start the brokers that are missing, or lower the topic's min.insync.replicas",
    "POLICY_VIOLATION": "the cluster forbids it: create the topic yourself, or change partitions, replication_factor",
    "RECORD_LIST_TOO_LARGE": _TOO_LARGE,
    "SASL_AUTHENTICATION_FAILED": _LOGIN,
    "TOPIC_EXCEPTION": "change the topic's name",
    "UNSUPPORTED_SASL_MECHANISM": _LOGIN,
}


def codes(names: Iterable[str]) -> frozenset[int]:
    """The numbers of librdkafka's error names; a name that this version of the library does not know is left out."""
    return frozenset(getattr(KafkaError, name) for name in names if hasattr(KafkaError, name))


_FAMILIES = {code: family for family, names in _NAMES.items() for code in codes(names.split())}

_REMEDIES_BY_CODE = {code: text for name, text in _REMEDIES_BY_NAME.items() for code in codes([name])}

TOO_LARGE = codes(["MSG_SIZE_TOO_LARGE", "RECORD_LIST_TOO_LARGE"])
"""Said of a message, or of all the messages that were sent in one piece."""

OF_A_MESSAGE = codes(_NAMES[ParkError].split())
"""Errors that say: this message, or one that was sent together with it, is not taken."""

OF_A_TOPIC = codes([*_NAMES[SchemaMissing].split(), "TOPIC_AUTHORIZATION_FAILED"])
"""Errors that say: no message of this topic is taken now."""

ABOUT_MESSAGES = OF_A_MESSAGE | OF_A_TOPIC

OF_A_SEQUENCE = codes(
    [
        "DUPLICATE_SEQUENCE_NUMBER",
        "INVALID_PRODUCER_ID_MAPPING",
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
        "TRANSACTION_ABORTABLE",
        "UNKNOWN_PRODUCER_ID",
    ]
)
"""librdkafka and the broker disagree about sequence numbers, as they do after messages were refused: after the abort,
which draws a new epoch, the same transaction goes through."""

CREDENTIALS = codes(
    ["_AUTHENTICATION", "_SSL", "ILLEGAL_SASL_STATE", "SASL_AUTHENTICATION_FAILED", "UNSUPPORTED_SASL_MECHANISM"]
)
"""Errors of a connection that waiting does not mend."""


def family(code: int) -> type[FencepostError]:
    """The class that an error code stands for. A code that is not known is Unavailable: nobody knows what happened."""
    return _FAMILIES.get(code, Unavailable)


PRODUCER_ERRORS = (KafkaException, SystemError)
"""What a call of a producer raises. confluent_kafka raises a fatal error while it serves callbacks, and where it then
calls one more of ours, Python makes a SystemError of that."""


def cause(exception: KafkaException | SystemError) -> KafkaError:
    """The error inside an exception of the library."""
    if isinstance(exception, SystemError):
        inner = exception.__cause__
        return cause(inner) if isinstance(inner, KafkaException | SystemError) else KafkaError(KafkaError._FATAL)
    error: KafkaError = exception.args[0]
    return error


_MOMENT = re.compile(r" \(after \d+ms in state \w+(, \d+ identical error\(s\) suppressed)?\)")
"""What makes the same error a different text each time, which would be told again each time."""


def remedy_of(code: int) -> str:
    """What a person can do about an error; "" where nothing is known."""
    return _REMEDIES_BY_CODE.get(code) or _REMEDIES.get(family(code), "")


def fault(error: KafkaError, doing: str) -> FencepostError:
    """The error to raise while ``doing`` something that is not about one message ("Kafka, while <doing>: ...")."""
    kind = family(error.code())
    if kind is ParkError:  # nothing here is a message of the application's
        kind = ConfigurationError
    said = _MOMENT.sub("", error.str())
    return kind(f"Kafka, while {doing}: {said} ({error.name()})", remedy=remedy_of(error.code()))


def not_taken(error: KafkaError, remedy: str = "") -> ParkError:
    """Why a message is set aside: at once where it is to blame itself, after some attempts where its topic is."""
    what = f"Kafka does not take the message: {error.str()} ({error.name()})"
    return ParkError(what, remedy=remedy or remedy_of(error.code()), at_once=error.code() in OF_A_MESSAGE)
