"""What was ordered of weight versions: policies, branches and exports, made in a process of their own."""
