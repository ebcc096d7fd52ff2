"""Worker records and long polls."""
