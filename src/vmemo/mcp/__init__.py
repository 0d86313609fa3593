"""The MCP door: tools and resources over the same verbs."""
