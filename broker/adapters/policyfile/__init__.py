"""Policy files in YAML, with positions."""
