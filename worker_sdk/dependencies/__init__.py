"""Dependencies: values that handlers get besides the argument of the job."""
