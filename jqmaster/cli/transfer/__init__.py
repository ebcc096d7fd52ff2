"""Export the objects of an installation as JSON lines, and import them into another installation."""
