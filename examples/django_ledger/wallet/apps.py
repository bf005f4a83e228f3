"""The app's name, wherever its folder is put."""

from django.apps import AppConfig


class WalletConfig(AppConfig):
    """The wallet."""

    name = __name__.rpartition(".")[0]
    label = "wallet"
