"""What is written down before anything is answered."""
