"""Dependencies: values that handlers are given besides the argument of the job."""
