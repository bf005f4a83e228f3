"""Events, deliveries and attempts in partitions by the time that their ids begin with.

- ``layout``: the partitions that there are, read off the server's catalog
- ``plan``: which are to be made and dropped, decided on a layout
- ``session``: how long a round waits for locks, and what it has done
- ``proofs``: where a large partition can end, proved without a lock
- ``extending``: making partitions
- ``maintenance``: a whole round, beside a service that runs
"""
