"""Where the wallet answers."""

from django.urls import path

from .wallet import views

urlpatterns = [
    path("accounts/<uuid:account_id>/purchases", views.purchases),
]
