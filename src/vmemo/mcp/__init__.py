"""MCP server: `vmemo.mcp.server` makes one for a caller, `vmemo.mcp.stdio` runs one on stdin and stdout."""
