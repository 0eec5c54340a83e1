"""Who may do what with which version of a tool."""
