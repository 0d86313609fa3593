"""Memory for coding agents: hooks, a local server for them, transcripts, and anchors of facts in a repository."""
