from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_merge.codecs.encode.text_hashes import text_hashes


def test_equal_texts_have_one_number_and_others_rarely_do() -> None:
    texts = pa.array([str(number) for number in range(10_000)] * 2 + [None])
    result = text_hashes(texts)
    assert result.dtype == np.uint64
    assert (result[:10_000] == result[10_000:-1]).all()
    assert len(np.unique(result)) > 9_990
    assert len(text_hashes(pa.array([], pa.string()))) == 0
