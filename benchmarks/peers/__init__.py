"""Other queues with the same job, in turns with this one."""
