"""The Helm chart in operation: its pods run as processes under a kubelet in miniature."""
