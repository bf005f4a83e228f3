"""One folder for each technology that plugs into the ports or drives the use cases."""
