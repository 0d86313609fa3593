"""MCP server: `server` makes one for a caller, `stdio` runs one on stdin and stdout."""
