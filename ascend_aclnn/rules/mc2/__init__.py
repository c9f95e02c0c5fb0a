"""Rules of ops-transformer/mc2: operators that compute and communicate. What phase one checks; most need a communicator.

The number of devices is known to the communicator alone, so shapes that depend on it are not inferred.
"""
