"""Indonesia's holidays by the package `holidays`, imported at the first use (80 ms).

The days of the Islamic calendar are announced late; until then they are the package's estimates.
"""

import asyncio
from collections.abc import Mapping
from datetime import date
from types import MappingProxyType
from typing import Final

from meetcore.domain.notes.due_words import Holiday, Holidays

_NAMES: Final[Mapping[str, Holiday]] = MappingProxyType(
    {
        "Hari Raya Idul Fitri": Holiday.EID_AL_FITR,
        "Hari Raya Idul Adha": Holiday.EID_AL_ADHA,
        "Hari Raya Natal": Holiday.CHRISTMAS,
        "Tahun Baru Masehi": Holiday.NEW_YEAR,
        "Tahun Baru Imlek": Holiday.LUNAR_NEW_YEAR,
        "Hari Suci Nyepi": Holiday.NYEPI,
        "Hari Raya Waisak": Holiday.VESAK,
        "Wafat Yesus Kristus": Holiday.GOOD_FRIDAY,
        "Kebangkitan Yesus Kristus": Holiday.EASTER,
        "Hari Kemerdekaan Republik Indonesia": Holiday.INDEPENDENCE_DAY,
    }
)


class HolidaysCalendar:
    """The `HolidayCalendar` of the package `holidays`."""

    async def holidays_from(self, day: date) -> Holidays:
        """Compute them in a thread."""
        return await asyncio.to_thread(_holidays_from, day)


def _holidays_from(day: date) -> Holidays:
    import holidays

    found: dict[Holiday, list[date]] = {}
    for held_on, names in sorted(
        holidays.country_holidays("ID", years=(day.year, day.year + 1), language="id").items()
    ):
        for name in names.split("; "):
            if (holiday := _NAMES.get(name.removesuffix(" (perkiraan)"))) is not None:
                found.setdefault(holiday, []).append(held_on)
    return found
