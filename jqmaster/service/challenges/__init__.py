"""Use cases of challenges: work that other systems do, and their callbacks."""
