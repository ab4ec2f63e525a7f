"""Pages over many rooms. Every view names who may use it; an object of somebody else is not there (404)."""
