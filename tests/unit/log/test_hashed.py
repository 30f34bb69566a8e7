"""A file that is hashed while it is written."""

from __future__ import annotations

import hashlib
import io

from sidecar.shared.log.hashed import HashedFile, sha256_of


def test_the_sum_is_that_of_all_that_was_written() -> None:
    out = io.BytesIO()
    file = HashedFile(out)
    assert file.write(b"some") == 4
    file.write(b" bytes")
    file.flush()
    file.close()
    assert (out.getvalue(), file.tell()) == (b"some bytes", 10), "closing is for who has opened it"
    assert file.sha256() == sha256_of(b"some bytes") == hashlib.sha256(b"some bytes").hexdigest()
