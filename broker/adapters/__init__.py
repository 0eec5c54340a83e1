"""One technology a folder, strangers to each other."""
