"""The holidays of Indonesia, and that the package which knows them is imported when they are asked for."""

import subprocess
import sys
from datetime import date

from meetcore.adapters.public_holidays import HolidaysCalendar
from meetcore.domain.notes.due_words import Holiday


async def test_the_holidays_of_two_years():
    found = await HolidaysCalendar().holidays_from(date(2026, 11, 2))
    assert set(found) == set(Holiday)
    assert found[Holiday.CHRISTMAS] == [date(2026, 12, 25), date(2027, 12, 25)]
    assert found[Holiday.EID_AL_FITR] == [date(2026, 3, 21), date(2027, 3, 10)]
    assert found[Holiday.NYEPI] == [date(2026, 3, 19), date(2027, 3, 8)]
    assert found[Holiday.INDEPENDENCE_DAY] == [date(2026, 8, 17), date(2027, 8, 17)]


def test_the_package_is_imported_late():
    code = "import sys, meetcore.adapters.public_holidays; sys.exit('holidays' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
