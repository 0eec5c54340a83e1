"""The broker command."""
