"""Export jobs of weight versions: policies, branches and exports, made in a separate process."""
