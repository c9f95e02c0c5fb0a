"""References of ATB's operations (libatb.so): functions of the inputs and parameters by name, see ``_operations``."""
