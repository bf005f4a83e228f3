"""The numbered steps; see `meetcore.adapters.postgres.migrate`."""
