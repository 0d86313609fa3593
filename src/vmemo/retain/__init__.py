"""From messages to facts: prepare, read, segment, resolve, link."""
