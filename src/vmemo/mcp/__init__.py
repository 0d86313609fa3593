"""The MCP door: `vmemo.mcp.server` makes a server over a visitor, `vmemo.mcp.local` runs one on stdin and stdout."""
