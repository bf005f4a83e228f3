"""The composition root, which alone knows which adapter fills which port: settings → ports → application.

- ``ports``: every port of a process, typed by its protocol
- ``policy``: the limits and periods of an application, and the functions it reports to
- ``application``: builds the use cases and the periodic tasks on ports, once; imports no technology
- ``infrastructure``: opens the ports that the settings name: Postgres, broker, Redis
- ``providers``, ``ai``: one function for each video provider and each AI service
- ``mails``: the mail server, if one is named
- ``worker``: runs the application's background work on an event loop
- ``verification``: verifies the ledger in several processes
- ``doctor``: checks for an operator of everything that the settings name
- ``operation_logs``, ``start_warnings``: log lines for operators
"""
