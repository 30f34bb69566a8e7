"""Files on any storage: whole and durable when written, with the same errors everywhere. Of the sidecar it imports errors and process/.

folder     a URL to a picklable Folder              errors     what a storage reports, for every back end, and what it means to the log
dispatch   the functions for all callers, and the contract of a back end
local, s3, memory   the back ends, each with the same functions; a driver's errors end in its file
files      what a listing says of files            local_tree, s3_listing   how two listings differ, at the cost of what is new
"""

from sidecar.shared.log.storage.dispatch import (
    copy_files,
    create_exclusively,
    exists,
    is_old_temporary,
    is_temporary,
    keeps_exclusive,
    list_changes,
    list_files,
    list_folders,
    list_names,
    make_durable,
    new_file,
    new_files,
    open_to_read,
    read_file,
    read_files,
    read_if_there,
    read_start,
    remove,
    volume_bytes,
    write_all,
    write_atomically,
    write_in_order,
)
from sidecar.shared.log.storage.errors import Absent, Exhausted, Full, Refused, StorageError, Unreachable, bare, log_error
from sidecar.shared.log.storage.files import Changes, FileEntry, Known
from sidecar.shared.log.storage.folder import Folder, log_folder, open_folder

__all__ = [
    "Absent",
    "Changes",
    "Exhausted",
    "FileEntry",
    "Folder",
    "Full",
    "Known",
    "Refused",
    "StorageError",
    "Unreachable",
    "bare",
    "copy_files",
    "create_exclusively",
    "exists",
    "is_old_temporary",
    "is_temporary",
    "keeps_exclusive",
    "list_changes",
    "list_files",
    "list_folders",
    "list_names",
    "log_error",
    "log_folder",
    "make_durable",
    "new_file",
    "new_files",
    "open_folder",
    "open_to_read",
    "read_file",
    "read_files",
    "read_if_there",
    "read_start",
    "remove",
    "volume_bytes",
    "write_all",
    "write_atomically",
    "write_in_order",
]
