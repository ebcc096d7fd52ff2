"""The Helm chart in deploy/helm: its schema, its golden renderings, and what is made of them."""
