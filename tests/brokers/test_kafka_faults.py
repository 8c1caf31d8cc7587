"""Every error code of librdkafka belongs to a family."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from fencepost.brokers.kafka import faults, settings
from fencepost.errors import (
    AccessDenied,
    ConfigurationError,
    Fenced,
    FencepostError,
    FixError,
    ParkError,
    RetryError,
    StopError,
    Unavailable,
)
from fencepost.ports import BrokerOptions

NAMES = [name for name in dir(KafkaError) if isinstance(getattr(KafkaError, name), int) and name != "NO_ERROR"]


def test_the_library_has_the_codes_that_are_walked() -> None:
    assert len(NAMES) > 150


@pytest.mark.parametrize("name", NAMES)
def test_a_code_has_a_family(name: str) -> None:
    code = getattr(KafkaError, name)
    assert code in faults._FAMILIES, f"{name} is in no family"
    assert issubclass(faults.family(code), FixError | RetryError | ParkError | StopError)


def test_no_name_is_in_two_families() -> None:
    names = " ".join(faults._NAMES.values()).split()
    assert len(names) == len(set(names))
    assert set(names) == set(NAMES)


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("_FENCED", Fenced),
        ("PRODUCER_FENCED", Fenced),
        ("INVALID_PRODUCER_EPOCH", Fenced),
        ("SASL_AUTHENTICATION_FAILED", AccessDenied),
        ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", AccessDenied),
        ("_SSL", AccessDenied),
        ("_TRANSPORT", Unavailable),
        ("_ALL_BROKERS_DOWN", Unavailable),
        ("_TIMED_OUT", RetryError),
        ("INVALID_TXN_STATE", RetryError),
        ("TRANSACTION_COORDINATOR_FENCED", RetryError),
        ("MSG_SIZE_TOO_LARGE", ParkError),
        ("INVALID_RECORD", ParkError),
        ("UNKNOWN_TOPIC_OR_PART", FixError),
    ],
)
def test_families_that_decide_what_a_lane_does(name: str, family: type[FencepostError]) -> None:
    assert issubclass(faults.family(getattr(KafkaError, name)), family)


def test_a_code_that_is_not_known_is_tried_again() -> None:
    assert faults.family(9999) is Unavailable


def test_an_error_that_is_about_no_message_is_never_parked() -> None:
    raised = faults.fault(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), "writing a receipt")
    assert isinstance(raised, ConfigurationError)
    assert "writing a receipt" in str(raised)


def test_only_the_message_itself_is_parked_at_once() -> None:
    assert faults.not_taken(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)).at_once
    assert not faults.not_taken(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)).at_once


def test_the_cause_of_an_exception() -> None:
    assert faults.cause(KafkaException(KafkaError(KafkaError._FENCED))).code() == KafkaError._FENCED


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("INVALID_RECORD", "give the message one (key=...)"),
        ("MSG_SIZE_TOO_LARGE", "message.max.bytes of the relay"),
        ("MSG_SIZE_TOO_LARGE", "max.message.bytes of the topic"),
        ("RECORD_LIST_TOO_LARGE", "message.max.bytes of the relay"),
        ("UNKNOWN_TOPIC_OR_PART", "create = true"),
        ("TOPIC_AUTHORIZATION_FAILED", "Describe and Write on the topics"),
    ],
)
def test_why_a_message_is_parked_and_what_to_do(name: str, remedy: str) -> None:
    assert remedy in str(faults.not_taken(KafkaError(getattr(KafkaError, name))))


def test_the_limits_of_a_message_are_those_that_hold_by_default() -> None:
    own = settings.parse(BrokerOptions(url="kafka://h:1", source="/x")).message_bytes_max
    assert f"message.max.bytes of the relay (in [broker], {own:,} unless" in faults.remedy_of(
        KafkaError.MSG_SIZE_TOO_LARGE
    )


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("_TRANSPORT", "check the hosts and ports in the URL"),
        ("_RESOLVE", "check the names of the hosts"),
        ("_ALL_BROKERS_DOWN", "advertised.listeners"),
        ("_TIMED_OUT", "advertised.listeners"),
        ("_AUTHENTICATION", "sasl.password"),
        ("SASL_AUTHENTICATION_FAILED", "sasl.password"),
        ("_SSL", "ssl.ca.location"),
        ("TOPIC_AUTHORIZATION_FAILED", "DescribeConfigs"),
        ("TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "the transactional ids that begin with fencepost."),
        ("INVALID_REPLICATION_FACTOR", "set replication_factor"),
        ("NOT_ENOUGH_REPLICAS", "min.insync.replicas"),
        ("UNKNOWN_TOPIC_OR_PART", "create the topic"),
    ],
)
def test_a_person_is_told_what_to_do(name: str, remedy: str) -> None:
    assert remedy in faults.fault(KafkaError(getattr(KafkaError, name)), "connecting").remedy


def test_every_remedy_is_for_a_code_that_the_library_has() -> None:
    assert set(faults._REMEDIES_BY_NAME) <= set(NAMES)


def test_the_same_trouble_has_the_same_text() -> None:
    said = "127.0.0.1:9/bootstrap: Connect to ipv4#127.0.0.1:9 failed: Connection refused (after {} in state CONNECT{})"
    texts = [said.format("0ms", ""), said.format("12ms", ", 3 identical error(s) suppressed")]
    told = {str(faults.fault(KafkaError(KafkaError._TRANSPORT, text), "connecting")) for text in texts}
    assert len(told) == 1
    assert "Connection refused (_TRANSPORT)" in told.pop()
