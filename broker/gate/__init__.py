"""What runs inside an MCP server or beside a downstream API."""
