"""Use cases of constraints: documents, previews, and this master's copy."""
