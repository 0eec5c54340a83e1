"""The life of a version, from published to retired."""
