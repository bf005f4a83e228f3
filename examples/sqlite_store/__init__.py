"""A store for meetcore on SQLite: what it takes to bring a database of your own. Begin with the README."""
