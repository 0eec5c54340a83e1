"""Key sets of subject-token issuers."""
