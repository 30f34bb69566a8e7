"""A number for each text, so that many texts can be sought in many others as numbers."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import pyarrow as pa

from spark_merge.codecs.encode.lazy_polars import pl


def text_hashes(texts: pa.Array) -> npt.NDArray[Any]:
    """uint64, equal where texts are, within one process. Others may have the same number: who compares looks at the texts too."""
    series: Any = pl.from_arrow(texts)
    hashes: npt.NDArray[Any] = pl.Series(series).hash().to_numpy()
    return hashes
