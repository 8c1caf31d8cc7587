"""Why the two transactional ids of a lane fence: every interleaving of owners who take over at the same time.

A model, step for step as the code does it: an owner initialises the first id, then the second, reads the receipts, and
publishes what they do not name, the first batch by the first id, the others in turn. An initialisation fences whoever
had the id before. A batch that two owners publish is a repeat.
"""

from dataclasses import dataclass, replace

import pytest

OWNERS = 3
BATCHES = 3


@dataclass(frozen=True)
class Owner:
    """``epochs`` are None before the owner has initialised that id, ``known`` before it has read the receipts."""

    epochs: tuple[int | None, int | None] = (None, None)
    known: int | None = None
    turn: int = 0
    over: bool = False


@dataclass(frozen=True)
class World:
    epochs: tuple[int, int] = (0, 0)
    published: tuple[int, ...] = ()
    owners: tuple[Owner, ...] = (Owner(),) * OWNERS


@dataclass(frozen=True)
class Rules:
    """What a take-over does, in order, and by which id the first batch goes."""

    order: tuple[str, str, str] = ("first", "second", "read")
    first_turn: int = 0


def step(world: World, number: int, rules: Rules) -> World | None:
    """What one owner does next; None where there is nothing."""
    owner = world.owners[number]
    if owner.over:
        return None
    done = [owner.epochs[0] is not None, owner.epochs[1] is not None, owner.known is not None]
    names = ("first", "second", "read")
    for name in rules.order:
        if not done[names.index(name)]:
            return read(world, number, rules) if name == "read" else initialise(world, number, names.index(name))
    return publish(world, number)


def changed(world: World, number: int, owner: Owner, **more: object) -> World:
    owners = tuple(owner if n == number else other for n, other in enumerate(world.owners))
    return replace(world, owners=owners, **more)  # type: ignore[arg-type]


def initialise(world: World, number: int, which: int) -> World:
    owner, (first, second), (own_first, own_second) = world.owners[number], world.epochs, world.owners[number].epochs
    if which == 0:
        return changed(world, number, replace(owner, epochs=(first + 1, own_second)), epochs=(first + 1, second))
    return changed(world, number, replace(owner, epochs=(own_first, second + 1)), epochs=(first, second + 1))


def read(world: World, number: int, rules: Rules) -> World:
    owner = replace(world.owners[number], known=len(world.published), turn=rules.first_turn)
    return changed(world, number, owner)


def publish(world: World, number: int) -> World | None:
    owner = world.owners[number]
    known = owner.known
    assert known is not None
    if known == BATCHES:
        return None
    if owner.epochs[owner.turn] != world.epochs[owner.turn]:
        return changed(world, number, replace(owner, over=True))
    owner = replace(owner, known=known + 1, turn=1 - owner.turn)
    return changed(world, number, owner, published=(*world.published, known))


def search(rules: Rules) -> tuple[int, World | None]:
    """The number of worlds that can be reached, and one in which a batch was published twice."""
    seen = {World()}
    open_worlds = [World()]
    while open_worlds:
        world = open_worlds.pop()
        for number in range(OWNERS):
            following = step(world, number, rules)
            if following is None or following in seen:
                continue
            if len(set(following.published)) < len(following.published):
                return len(seen), following
            seen.add(following)
            open_worlds.append(following)
    return len(seen), None


def test_no_interleaving_publishes_a_batch_twice() -> None:
    worlds, repeat = search(Rules())
    assert repeat is None
    assert worlds > 5_000


@pytest.mark.parametrize(
    "rules",
    [
        Rules(first_turn=1),
        Rules(order=("second", "first", "read"), first_turn=0),
        Rules(order=("first", "read", "second")),
        Rules(order=("read", "first", "second")),
    ],
    ids=["the first batch by the second id", "the other order", "read too early", "read before the fence"],
)
def test_each_rule_is_needed(rules: Rules) -> None:
    assert search(rules)[1] is not None
