"""What all commands share: the HTTP client, output, exit codes, logs."""
