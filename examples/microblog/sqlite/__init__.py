"""A database engine for Django: SQLite, for a site whose workers write to the same database."""
