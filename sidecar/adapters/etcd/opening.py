"""The keys that the settings name: an etcd's, or a folder's."""

from __future__ import annotations

from sidecar.adapters.etcd.client import EtcdClient
from sidecar.adapters.etcd.folder import FolderKeys
from sidecar.adapters.etcd.keys import BY_SETTINGS, EtcdNamed, Keys
from sidecar.shared.config import EtcdSection


def open_keys(section: EtcdSection, *, named: EtcdNamed = BY_SETTINGS) -> Keys:
    """Raises ConfigError for endpoints, files or a folder that cannot be used; does not connect."""
    return FolderKeys(section) if section.folder else EtcdClient(section, named=named)
