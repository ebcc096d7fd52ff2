"""The leader's lock and epoch, and the records of masters."""
