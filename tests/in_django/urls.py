"""The routes of the project."""

from tests.in_django.project import admin_urls

urlpatterns = admin_urls()
