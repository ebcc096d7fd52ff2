"""Why a job is not running."""
