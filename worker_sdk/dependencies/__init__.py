"""Dependencies: values that handlers get in addition to the argument of the job."""
