"""The part of JSON Schema 2020-12 that decisions stand on."""
