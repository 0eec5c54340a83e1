"""The store, on Redis or Valkey."""
