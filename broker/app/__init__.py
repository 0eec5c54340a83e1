"""Composition root: settings, adapters, services, server."""
