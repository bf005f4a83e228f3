"""`meetcore doctor`: check everything that the settings name, one line each."""

from meetcore.adapters.settings import load_settings
from meetcore.cli.inputs import Json
from meetcore.cli.output import ExitCode, print_message, show
from meetcore.cli.runner import guarded


def check_health(*, json: Json = False) -> None:
    """Check database, servers and providers that the settings name. Ends with 1 if any check failed."""
    from meetcore.composition.doctor import CheckStatus, run_checks

    settings = guarded(load_settings, as_json=json)
    results = run_checks(settings)
    is_healthy = all(result.status is not CheckStatus.FAILED for result in results.values())
    if json:
        checks = [
            {"check": name, "status": result.status.value, "message": result.message}
            for name, result in results.items()
        ]
        show({"is_healthy": is_healthy, "checks": checks}, as_json=True)
    else:
        for name, result in results.items():
            print_message(f"{result.status.value:<9}{name:<12}{result.message}")
    if not is_healthy:
        raise SystemExit(ExitCode.REFUSED)
