"""Recall: from a request to ranked facts. `pipeline` is the way of a recall, and `run` what its stages share.

`rank` searches the channels, follows links and orders candidates, `fuse` combines rankings and reranks,
and `load` weighs, packs and explains the result.
"""
