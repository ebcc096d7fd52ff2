"""Commands of the SDK alone, `python -m worker_sdk`, and the parts that `jqmaster` shares with them."""
