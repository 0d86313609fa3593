"""Recall: from a request to ranked facts. `pipeline` is the way of a recall, and `run` what its stages share.

`rank` searches the channels and orders candidates, `fuse` combines rankings and reranks, `graph_channel` follows links,
and `load` weighs, packs and explains the result.
"""
