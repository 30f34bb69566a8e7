"""Which files are new in a folder, have changed or are gone, again and again, at the cost of what is new.

- The first call reports all files, each later one what differs from the call before.
- Every file that was there under its name when a call began is accounted for by that call or an earlier one: read `metadata` first, then
  call.
- A call that fails changes nothing: the next one reports what this one would have.

What a listing costs is the storage's: sidecar/shared/log/storage/local_tree.py, sidecar/shared/log/storage/s3_listing.py. Hidden and
temporary files are listed too: the caller decides by the name.
"""

from __future__ import annotations

from sidecar.shared.log.storage import Changes, Folder, Known, list_changes


class Listing:
    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._known: Known | None = None

    def changes(self) -> Changes:
        """Raises what the folder's errors mean to its reader."""
        changes = list_changes(self._folder, self._known)
        self._known = changes.known
        return changes
