"""The steps of the rules beside: what runs inside actions, and the only code here that imports torch."""
