"""The namespaces of an installation, as a master knows them."""
