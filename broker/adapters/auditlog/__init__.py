"""The durable audit log, on SQLite."""
