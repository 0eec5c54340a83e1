"""Other replicas of this broker, over HTTP."""
