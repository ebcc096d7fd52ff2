"""The registry of namespaces: in the store, and the copies on the disks of masters."""
