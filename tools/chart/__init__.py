"""Tools for the Helm chart in deploy/helm: its schema, its golden renderings, its manifests for kustomize, and its
checks."""
