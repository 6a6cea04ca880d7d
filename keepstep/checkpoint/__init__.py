"""The PostgreSQL room: tables, statements, and everything that a case has on disk."""
