"""A database engine for Django: SQLite, for a site with workers that write to the same database."""
