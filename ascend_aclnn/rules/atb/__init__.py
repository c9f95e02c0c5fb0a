"""Rules of ATB's operations: "...Param" what CreateOperation checks of the parameters, "...Operation" what Setup checks.

They fail with ATB's statuses. What an operation lacks on a product is a parameter that its CreateOperation refuses there.
"""
