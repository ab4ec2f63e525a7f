"""Views for rating: the page with one item at a time, its requests, and stars given anywhere."""
