"""What ``scripts/attack`` tries."""
