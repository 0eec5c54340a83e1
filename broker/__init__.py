"""Mayfly: credentials for MCP tools that live for seconds and die with the version they were minted for."""
