"""Orders over HTTP. An order and the message about it are committed together; a relay beside the application publishes.

Run it in this folder: uvicorn main:app
"""

import logging
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

import fencepost.app
from fencepost import AsyncOutbox, config
from fencepost.observers.log import LogObserver
from fencepost.sql.tables import tables

logging.basicConfig(level=logging.INFO)
settings = config.load(None, os.environ)  # fencepost.toml in this folder, and FENCEPOST_... variables
engine = create_async_engine(settings.database.url)
sessions = async_sessionmaker(engine, expire_on_commit=False)
outbox = AsyncOutbox(schema=settings.database.schema, prefix=settings.database.prefix)


class Base(DeclarativeBase):
    """The tables of this application."""


class Order(Base):
    """An order."""

    __tablename__ = "orders"
    id: Mapped[int] = mapped_column(primary_key=True)
    customer: Mapped[str]
    cents: Mapped[int]


# The outbox's tables beside our own: create_all, or Alembic, makes all of them.
tables(schema=settings.database.schema, prefix=settings.database.prefix, metadata=Base.metadata)


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Create what is missing, and run the relay for as long as the application runs.

    To run it as a process of its own instead, take it out here and start `fencepost relay` in this folder.
    """
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    async with fencepost.app.relaying(settings, LogObserver()) as app.state.relay:
        yield  # on the way out it publishes and settles what it has in hand, and lets another relay lead at once
    await engine.dispose()


app = FastAPI(lifespan=lifespan)


class NewOrder(BaseModel):
    """What a customer sends."""

    customer: str
    cents: int


async def place(session: AsyncSession, new: NewOrder) -> Order:
    """Add an order and its message to the session's transaction."""
    order = Order(customer=new.customer, cents=new.cents)
    session.add(order)
    await session.flush()  # the order gets its id
    payload = {"order": order.id, "customer": order.customer, "cents": order.cents}
    await outbox.add(session, "orders", payload, key=order.customer, type="order.placed")
    return order


@app.post("/orders", status_code=201)
async def place_order(new: NewOrder) -> dict[str, int]:
    """Place an order. When the answer says 201, order and message are committed."""
    async with sessions.begin() as session:
        order = await place(session, new)
    return {"order": order.id}


@app.post("/orders/refused")
async def refuse_order(new: NewOrder) -> None:
    """Fail after the message was added: the transaction is rolled back, nothing is sent."""
    async with sessions.begin() as session:
        await place(session, new)
        raise HTTPException(402, "the payment was refused")


@app.get("/health")
async def health() -> dict[str, str]:
    """Whether messages get through. If not, orders are taken all the same: their messages wait."""
    if trouble := await app.state.relay.trouble():
        raise HTTPException(503, trouble)
    return {"relay": "ok"}
