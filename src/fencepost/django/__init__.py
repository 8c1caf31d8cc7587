"""Fencepost as a Django app: add "fencepost.django" to INSTALLED_APPS, and messages inside ``transaction.atomic``.

    from fencepost.django import outbox

    with transaction.atomic():
        order = Order.objects.create(...)
        outbox.add("orders", {"order": order.pk}, key=str(order.pk), type="order.placed")

Settings, tables, the relay and the admin pages: docs/django.md.
"""

from fencepost.django.outbox import DjangoOutbox, outbox

__all__ = ["DjangoOutbox", "outbox"]
