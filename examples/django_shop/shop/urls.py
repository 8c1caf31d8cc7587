"""The routes."""

from django.contrib import admin
from django.urls import path

from shop import views

urlpatterns = [
    path("orders", views.orders),
    path("orders/refused", views.refused),
    path("orders/async", views.orders_async),
    path("admin/", admin.site.urls),
]
