"""The migrations of the app. docs/django.md says how later ones come."""
