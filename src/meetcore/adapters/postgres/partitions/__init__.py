"""Events, deliveries and attempts in partitions by the time that their ids begin with.

- ``layout``: the partitions that there are, read off the server's catalog
- ``plan``: which are to be made and dropped, decided on a layout
- ``maintenance``: doing it beside a service that runs
"""
