"""TIMESTAMPs from UTC, as canonical text has them, to the zone in which TiCDC's server writes them: the inverse of shared/columns/zone.py.

A moment has one local time, so nothing is ambiguous here.
"""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sidecar.shared.columns.zone import ZERO
from sidecar.shared.errors import ConfigError

UTC = ZoneInfo("UTC")

_DAY_S = 86_400
_CLOCK_CHARS = len(ZERO)
_DAYS_CACHED_MAX = 1 << 16


def zone_of(name: str) -> ZoneInfo:
    """Of an encoder's `time-zone`. Raises ConfigError."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ConfigError(
            f"time-zone={name}: no such time zone is known here", hint="give the TiCDC server's --tz, a name such as Asia/Shanghai"
        ) from error


def local_texts(texts: pa.Array, zone: ZoneInfo) -> pa.Array:
    """Texts in UTC to the same moments in `zone`, null where null; fractions and zero timestamps as they stand. Raises pa.ArrowInvalid
    for what is no timestamp."""
    if zone.key == UTC.key:
        return texts
    clocks = pc.utf8_slice_codeunits(texts, 0, _CLOCK_CHARS)
    shifted = pc.and_kleene(pc.is_valid(clocks), pc.not_equal(clocks, ZERO))
    moments = pc.if_else(shifted, clocks, None).cast(pa.timestamp("s")).cast(pa.int64())
    seconds: npt.NDArray[np.int64] = moments.fill_null(0).to_numpy(zero_copy_only=False)
    local = pa.array(seconds + _offsets_s(seconds, zone)).cast(pa.timestamp("s")).cast(pa.string())
    fractions = pc.utf8_slice_codeunits(texts, _CLOCK_CHARS)
    return pc.if_else(shifted, pc.binary_join_element_wise(local, fractions, ""), texts)


def _offsets_s(seconds: npt.NDArray[np.int64], zone: ZoneInfo) -> npt.NDArray[np.int64]:
    """The zone is queried once a day, and for each moment of a day at whose end the offset differs from that at its beginning."""
    days, of_day = np.unique(seconds // _DAY_S, return_inverse=True)
    at_begin = np.array([_offset_s(zone, int(day) * _DAY_S) for day in days], np.int64)
    at_end = np.array([_offset_s(zone, (int(day) + 1) * _DAY_S) for day in days], np.int64)
    offsets = at_begin[of_day]
    for place in np.flatnonzero((at_begin != at_end)[of_day]):
        offsets[place] = _offset_s.__wrapped__(zone, int(seconds[place]))
    return offsets


@lru_cache(maxsize=_DAYS_CACHED_MAX)
def _offset_s(zone: ZoneInfo, second: int) -> int:
    offset = datetime.fromtimestamp(second, UTC).astimezone(zone).utcoffset()
    assert offset is not None
    return int(offset.total_seconds())
