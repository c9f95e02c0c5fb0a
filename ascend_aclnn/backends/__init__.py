"""The backends, one folder each; ``interface`` says what each must provide."""
