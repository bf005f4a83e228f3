"""The benchmarks: the costs of the service, each compared with a floor measured in the same run.

Machines differ and are busy; a ratio within one run is what can be compared. Floor and service
alternate, and the medians of their turns are compared.

- ``__main__``: the run: `make bench`, `make bench ARGS=--quick`, `make bench ARGS=--smoke`
- ``scaling``, ``standby``, ``cluster``, ``apart``, ``spread``: the figures of docs/scaling.md, each by itself
- ``growth``, ``plans``, ``pages``, ``peers``: what the longer forms measure
- ``reads``, ``creations``, ``hosts``, ``posts``, ``footprint``, ``rules``: what is measured
- ``recording``, ``script``, ``pgbench``: the floor of `POST /meetings`, made of what one request sends
- ``bare``: the floor of `GET /me`
- ``tls_receiver``: what webhooks are posted to
- ``load``: the load generator, a process of its own
- ``places``, ``processes``, ``seeds``: servers, programs, seeds
- ``ledger_rows``, ``table_rows``, ``late_indexes``: rows of a long past, as many as are asked for
- ``report``, ``goals``: a figure beside its floor, the table of them, whether a goal is met
- ``performance_page``, ``texts``, ``charts``, ``machine``: docs/performance.md
"""
