"""A database engine of Django: SQLite, for a site beside workers."""
