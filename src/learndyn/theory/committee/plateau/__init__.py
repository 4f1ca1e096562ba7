"""The symmetric plateau, and the escape from it."""
