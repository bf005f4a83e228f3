"""The composition root, which alone knows the adapter of each port: settings → ports → application.

- ``policy``: limits and periods of an application, and the functions it reports to
- ``application``: the ports of a process, and the use cases on them; imports no technology
- ``use_cases``: builds each use case once, and the periodic tasks
- ``gateways``: the payment gateways by name
- ``configuration``: policy, keys and warnings from the settings
- ``infrastructure``: opens the ports that the settings name: PostgreSQL, broker, Redis
- ``providers``: opens video providers, AI services, mail and sign-in
- ``observability``: log lines, metrics and traces of a process
- ``worker``: runs the background work on an event loop
- ``verification``: verifies the ledger in several processes
- ``past``: an application in the past, for a demo
- ``plugins``: opens the adapters that the settings name
- ``adapter_checks``: adapters tried before a start, and AI models tried by hand
- ``doctor``, ``database_checks``: an operator's checks of everything that the settings name
"""
