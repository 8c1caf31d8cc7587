"""Orders in SQLite with nothing but the standard library; their messages wait in the same file for a relay.

Run it twice, to see the same orders refused: python examples/plain_sqlite.py shop.db
"""

import sqlite3
import sys

from fencepost.databases.sqlite import schema
from fencepost.outbox import Outbox
from fencepost.ports import DatabaseOptions

outbox = Outbox()
shop = sqlite3.connect(sys.argv[1] if sys.argv[1:] else sys.exit("usage: python examples/plain_sqlite.py FILE"))
shop.execute("CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, total INTEGER)")
for statement in schema(DatabaseOptions(url=f"sqlite:///{sys.argv[1]}")).statements():
    shop.execute(statement)

for order, total in (("order-1", 120), ("order-2", 80), ("order-1", 999)):
    try:
        with shop:  # one transaction: the order and its message, or neither
            outbox.add(shop, "orders", {"id": order, "total": total}, key=order, type="order-placed")
            shop.execute("INSERT INTO orders VALUES (?, ?)", (order, total))
    except sqlite3.IntegrityError as error:
        print(f"rolled back {order}: {error}")

for waiting in shop.execute("SELECT topic, key, version, CAST(payload AS TEXT) FROM fencepost_outbox ORDER BY seq"):
    print("waits:", *waiting)
shop.close()
