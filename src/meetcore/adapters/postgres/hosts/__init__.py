"""Licensed hosts: which are free, and their keys."""
