"""What the shop keeps."""

from django.db import models


class Order(models.Model):
    """An order."""

    customer = models.CharField(max_length=100)
    cents = models.PositiveIntegerField()
