"""Orders over HTTP. An order and the message about it are committed together."""

import json

from asgiref.sync import sync_to_async
from django.db import transaction
from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from fencepost.django import outbox
from shop.models import Order


class PaymentRefused(Exception):
    """Ends a transaction."""


def place(customer: str, cents: int, *, paid: bool = True) -> Order:
    """Commit an order with its message; neither where the payment is refused."""
    with transaction.atomic():
        order = Order.objects.create(customer=customer, cents=cents)
        payload = {"order": order.pk, "customer": customer, "cents": cents}
        outbox.add("orders", payload, key=customer, type="order.placed")
        if not paid:
            raise PaymentRefused
    return order


@csrf_exempt
@require_POST
def orders(request: HttpRequest) -> JsonResponse:
    """Place an order."""
    wanted = json.loads(request.body)
    return JsonResponse({"order": place(wanted["customer"], wanted["cents"]).pk}, status=201)


@csrf_exempt
@require_POST
def refused(request: HttpRequest) -> JsonResponse:
    """Fail after the message was added: the transaction is rolled back, nothing is sent."""
    wanted = json.loads(request.body)
    try:
        place(wanted["customer"], wanted["cents"], paid=False)
    except PaymentRefused:
        return JsonResponse({"error": "the payment was refused"}, status=402)
    raise AssertionError("the payment was refused")


@csrf_exempt
async def orders_async(request: HttpRequest) -> JsonResponse:
    """The same as ``orders``, in a coroutine: the whole transaction is one function in a thread."""
    wanted = json.loads(request.body)
    order = await sync_to_async(place)(wanted["customer"], wanted["cents"])
    return JsonResponse({"order": order.pk}, status=201)
