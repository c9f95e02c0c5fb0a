"""References of ops-transformer/moe: tokens sent to experts, routed, chosen for, and summed up again."""
