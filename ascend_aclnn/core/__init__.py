"""The lowest layer; imports nothing above itself."""
