"""The logical clock that kills credentials."""
