"""The approach to the teacher, after the escape."""
