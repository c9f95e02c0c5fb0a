"""The device process: it runs operators, holds communicators, and answers the libraries over ``protocol``."""
