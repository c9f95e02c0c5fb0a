"""The backends, one folder each; core.interface says what each must provide."""
