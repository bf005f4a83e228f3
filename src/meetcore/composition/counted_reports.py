"""Reports that are counted by the metrics, too, before they go where they went."""

from collections.abc import Callable
from typing import Any

from attrs import evolve

from meetcore.composition.policy import Reports
from meetcore.domain.notes.notes import Note, NoteFault
from meetcore.domain.webhooks.deliveries import DeliveryStatus
from meetcore.ports.deliveries import GivenUp, Recorded
from meetcore.ports.metrics import Metrics
from meetcore.usecases.create_meeting import CapacityRefusal


def counted(reports: Reports, metrics: Metrics) -> Reports:
    """Return the same reports, each counted first."""

    def no_capacity(refusal: CapacityRefusal) -> None:
        metrics.no_host(refusal.seats)
        reports.no_capacity(refusal)

    def failed_note(note: Note, fault: NoteFault) -> None:
        metrics.note_failed(fault.value)
        reports.failed_note(note, fault)

    def failed_delivery(recorded: Recorded) -> None:
        if recorded.delivery.status is DeliveryStatus.FAILED:
            metrics.delivery_failed("attempts")
        reports.failed_delivery(recorded)

    def given_up_delivery(given_up: GivenUp) -> None:
        metrics.delivery_failed(given_up.reason.value)
        reports.given_up_delivery(given_up)

    def disabled_endpoint(endpoint: Any) -> None:
        metrics.endpoint_disabled()
        reports.disabled_endpoint(endpoint)

    def expired(subject: str, report: Callable[[Any], object]) -> Callable[[Any], object]:
        def take_over(work: Any) -> None:
            metrics.lease_expired(subject)
            report(work)

        return take_over

    return evolve(
        reports,
        no_capacity=no_capacity,
        failed_note=failed_note,
        failed_delivery=failed_delivery,
        given_up_delivery=given_up_delivery,
        disabled_endpoint=disabled_endpoint,
        expired_lease=expired("meeting", reports.expired_lease),
        expired_delivery=expired("delivery", reports.expired_delivery),
        expired_recording=expired("recording", reports.expired_recording),
        expired_note=expired("note", reports.expired_note),
        expired_event=expired("provider_event", reports.expired_event),
        expired_mail=expired("mail", reports.expired_mail),
    )
