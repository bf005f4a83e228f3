"""A webhook receiver on the standard library and `meetcore.domain.webhooks.signature`."""
