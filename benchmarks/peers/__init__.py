"""Run the same job in other queues, in turns with this one."""
