"""What somebody should look at: rules over rows, the alerts that they open, and how people hear of them."""
