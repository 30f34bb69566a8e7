"""Ids of dumps and verifications: whatever a text is, what is made of an id stays in its place."""

from __future__ import annotations

import posixpath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidecar.control.answers import new_operation_id
from sidecar.control.verification_messages import derived_id
from sidecar.core.marks import DUMP_ID_LENGTH
from sidecar.shared.log.dump_files import CERTIFICATES, REPORTS
from sidecar.shared.log.layout import chunk_name
from sidecar.shared.log.verification import request_name
from sidecar.shared.model.nouns import CommitTs, operation_id
from sidecar.shared.model.schema_step import dump_after_ddl
from tests.support.hostile_ids import HOSTILE

IDS = st.text(max_size=80) | st.text("./%\\\0\n", max_size=8) | st.from_regex(r"[0-9A-Za-z]{1,70}")


@given(IDS)
def test_an_id_is_one_part_of_a_path_and_every_other_text_is_an_error(text: str) -> None:
    if not (text.isascii() and text.isalnum() and len(text) <= 64):
        with pytest.raises(ValueError, match="expected letters and digits, such as 0123456789abcdef"):
            operation_id(text)
        return
    made = operation_id(text)
    assert made == text
    for name in (request_name(made), CERTIFICATES.name(made), REPORTS.name(made), chunk_name(made, epoch=1, number=2)):
        assert posixpath.normpath(name) == name
        assert name.isascii()
        assert name.isprintable()
        assert len(name.split("/")) == (2 if name.startswith(("cert", "rep")) else 3)
        assert all(len(part) < 100 for part in name.split("/"))


@pytest.mark.parametrize("text", ["", *HOSTILE])
def test_no_hostile_text_is_an_id(text: str) -> None:
    with pytest.raises(ValueError, match="is not the id of a dump or a verification") as caught:
        operation_id(text)
    assert len(str(caught.value)) < 400, "however long it is"
    with pytest.raises(ValueError, match="is not the id"):
        chunk_name(text, epoch=1, number=2)


def test_the_ids_that_we_make_are_ids_of_the_length_of_a_dumps() -> None:
    ours = [new_operation_id(), derived_id("a" * 16, "again"), dump_after_ddl(CommitTs(470000000000000000))[0]]
    for text in ours:
        assert (operation_id(text), len(text)) == (text, DUMP_ID_LENGTH)
