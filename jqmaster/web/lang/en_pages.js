/** The pages of names, failures, constraints, workers, masters, audit, settings and access. */
export default {};
