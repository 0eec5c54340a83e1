"""Asks a running MCP server what it serves, with the official client."""
