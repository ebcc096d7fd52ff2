"""Parts that all commands share: the HTTP client, output, exit codes and logs."""
