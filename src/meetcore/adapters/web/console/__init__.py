"""The console: what operators see and do, under `/console`."""
