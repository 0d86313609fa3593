"""The MCP door: `vmemo.mcp.server` makes a server over a visitor, `vmemo.mcp.stdio` runs one on stdin and stdout."""
