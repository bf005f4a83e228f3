"""Packages that do what we do, measured beside us in one run: `python -m benchmarks.peers [--smoke]`.

The packages are not among those of the project: the first run installs them, from `requirements/peers.txt`,
into a virtual environment of their own. Both sides of a line alternate, on one server with the same
durability.
"""
