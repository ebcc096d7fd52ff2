"""Which master leads, which one watches the leader, and how masters find each other."""
