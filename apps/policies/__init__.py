"""Which weights: policies that can be trained, and the folders their weight versions live in."""
