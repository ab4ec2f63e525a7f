"""Tasks, and the tasksets that hold them."""
