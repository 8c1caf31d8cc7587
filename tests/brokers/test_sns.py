"""SNS against a real server: where topics are found, what fails alone, what a subscriber gets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.errors import ParkError, SchemaMissing
from fencepost.ports import BrokerOptions
from fencepost.testing.readers.sns import reader
from fencepost.testing.readers.sqs import client
from tests.brokers.aws_kit import LANE, lossy, made, owner
from tests.brokers.rows import row, term

ACCOUNT = "123456789012"


@pytest.fixture
def sns(sns_url: str) -> Iterator[Any]:
    """An ordinary client."""
    one = client("sns", sns_url)
    yield one
    one.close()


async def test_a_topic_that_is_missing_holds_back_its_own_messages(sns_url: str, sns: Any, fresh_name: str) -> None:
    """With the account and without it, which costs a look at the list."""
    for account in (ACCOUNT, ""):
        there, missing = f"{fresh_name}.there{account}", f"{fresh_name}.missing{account}"
        sns.create_topic(Name=f"{there.replace('.', '--')}.fifo", Attributes={"FifoTopic": "true"})
        batch = [row(1, missing, key="a"), row(2, there, key="b"), row(3, missing, key="c")]
        async with owner(sns_url, create=False, account=account) as handoff:
            outcome = await handoff.publish(batch)
            assert [m.position for m in outcome.published] == [2]
            assert [f.message.position for f in outcome.failed] == [1, 3]
            assert all(isinstance(f.error, SchemaMissing) and f.whole_topic for f in outcome.failed)


async def test_a_list_of_topics_has_pages(sns_url: str, sns: Any, fresh_name: str) -> None:
    for number in range(105):
        sns.create_topic(Name=f"{fresh_name}-{number}")
    async with owner(sns_url, create=False, fifo=False) as handoff:
        assert (await handoff.publish([row(1, f"{fresh_name}-104")])).published


async def test_what_is_missing_is_made_and_only_there(sns_url: str, sns: Any, fresh_name: str) -> None:
    batch = [row(1, f"{fresh_name}.a"), row(2, f"{fresh_name}/b")]
    async with owner(sns_url, topic="shop-{topic}") as handoff:
        outcome = await handoff.publish(batch)
    assert outcome.published == batch[:1]
    (failure,) = outcome.failed
    assert isinstance(failure.error, ParkError)
    attributes = sns.get_topic_attributes(TopicArn=f"arn:aws:sns:eu-west-1:{ACCOUNT}:shop-{fresh_name}--a.fifo")
    assert attributes["Attributes"]["FifoTopic"] == "true"


@pytest.mark.parametrize("fifo", [True, False])
async def test_an_answer_that_is_lost(sns_url: str, fresh_name: str, fifo: bool) -> None:
    """A5: with FIFO the repeat is dropped, without it there are two, and only the second one is marked."""
    subscriber = reader(BrokerOptions(url=sns_url, source="/shop", settings={"fifo": fifo}))
    subscriber.expect(fresh_name)
    batch = [row(n, fresh_name, key=f"k{n}") for n in (1, 2, 3)]
    async with lossy(sns_url) as way:
        broker = made(way.url, fifo=fifo)
        handoff = await broker.take_over(LANE, term())
        await broker.prepare(LANE, [fresh_name])
        way.loses = True
        with pytest.raises(Exception, match="SNS"):
            await handoff.publish(batch)
        way.loses = False
        again = await broker.take_over(LANE, term(2))
        assert len((await again.publish([m._replace(in_doubt=True) for m in batch])).published) == 3
        await broker.close()
    marks = [seen.attributes.get("possiblerepeat", "first") for seen in await subscriber.read(fresh_name)]
    assert sorted(marks) == ["first"] * 3 + ([] if fifo else ["true"] * 3)
    await subscriber.close()


async def test_a_hundred_headers_reach_a_queue_behind_the_topic(sns_url: str, fresh_name: str) -> None:
    """SNS takes more than ten attributes, and then leaves the message out for a queue without a word."""
    subscriber = reader(BrokerOptions(url=sns_url, source="/shop"))
    subscriber.expect(fresh_name)
    headers = {f"h{n}": f"value {n}" for n in range(100)}
    async with owner(sns_url) as handoff:
        await handoff.publish([row(1, fresh_name, headers=headers)])
    (seen,) = await subscriber.read(fresh_name)
    assert seen.headers == headers
    await subscriber.close()
