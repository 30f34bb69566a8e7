"""The tests load gRPC as the product does: after the sidecar's package."""

import sidecar as sidecar
