"""The program `meetcore`: the operator's use cases and the processes, from a command line."""
