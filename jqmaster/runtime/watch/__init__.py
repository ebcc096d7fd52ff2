"""Watch this master and its store."""
