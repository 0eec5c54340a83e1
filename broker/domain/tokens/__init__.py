"""Claims: what a token must say to be believed, and what a credential says."""
