"""Embedders, rerankers, embedding caches and the token counter."""

import os

# ONNX Runtime reads this when it is imported, which only modules of this package do, directly or through fastembed.
# Without it, its telemetry writes files into the home folder and sends events to Microsoft.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
