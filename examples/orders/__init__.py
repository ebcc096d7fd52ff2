"""Orders that other systems carry out: challenges, callbacks, an approval, and a ledger that must balance."""
