"""How many files and sockets this process may have open."""

import sys


def allow_open_files(wanted: int) -> int:
    """Raise the soft limit of open files as far as the hard one allows; a higher limit stays.

    Returns:
        The limit in force; the requested one if the system has none.
    """
    if sys.platform == "win32":  # pragma: no cover - has no such limit
        return wanted
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    target = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if target > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
    return max(soft, target)
