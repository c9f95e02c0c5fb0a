"""What everything else stands on; imports nothing above itself."""
