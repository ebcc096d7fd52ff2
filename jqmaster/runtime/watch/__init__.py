"""What every master watches about itself and its store."""
