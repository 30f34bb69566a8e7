"""The certificates of a term, with what the sidecar knows of itself."""

from __future__ import annotations

import sidecar
from sidecar.adapters.etcd.cluster import pd_cluster_id
from sidecar.adapters.etcd.keys import Keys
from sidecar.run.auxiliary import Services
from sidecar.run.certifying import TermCertificates
from sidecar.run.dump_reports import CertificateFacts, DumpReports
from sidecar.run.samples import MeasuredTerms
from sidecar.run.term import Term
from sidecar.shared.log import storage


def serve_certificates(term: Term, client: Keys, measured: MeasuredTerms, services: Services) -> None:
    """They follow the log until the term's end, and retention waits for them. `term` has begun. `measured` receives the chunks of its
    dumps."""
    outside = term.pipeline.outside
    if outside.deliveries is None:
        return
    config = term.config

    def facts() -> CertificateFacts:
        return CertificateFacts(
            changefeed=term.changefeed.log_id,
            log=outside.log.id,
            cluster=config.changefeed.cluster,
            cluster_id=pd_cluster_id(client),
            product=sidecar.__version__,
        )

    folder, history = storage.log_folder(config.log.uri), outside.progress.history
    reports = DumpReports(folder, facts, measured.samples, measured.chunks)
    certificates = TermCertificates(term.owned(folder), history, outside.deliveries, reports)
    term.collected = certificates.collected
    services.serve("certificates", certificates.serve)
