"""Recall: from a question to ranked facts. `pipeline` is the way of a recall, and `rank` its ranking stage.

`channels` builds the search of all channels, `fuse` combines their rankings, `graph_channel` follows links, `rerank`
scores the best candidates again, `budget` weighs and packs the result, and `explain` describes how it came about.
"""
