"""Read `/metrics` as Prometheus does."""

from __future__ import annotations

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.support.program import TIMEOUT_S

Sample = tuple[str, frozenset[tuple[str, str]]]


def scrape(port: int) -> dict[Sample, float]:
    """Return every sample by its name and labels."""
    return samples_of(httpx.get(f"http://127.0.0.1:{port}/metrics", timeout=TIMEOUT_S, trust_env=False).text)


def samples_of(text: str) -> dict[Sample, float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def value(samples: dict[Sample, float], name: str, **labels: str) -> float:
    """Return the sum of a metric's samples with these labels."""
    wanted = {(key.rstrip("_"), label) for key, label in labels.items()}
    return sum(found for (own, given), found in samples.items() if own == name and wanted <= given)


def label_values(samples: dict[Sample, float], label: str) -> set[str]:
    return {value for _, given in samples for name, value in given if name == label}
