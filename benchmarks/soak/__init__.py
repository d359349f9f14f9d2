"""Endurance: a whole appliance under load and a seeded schedule of faults, with invariants that are checked all the
time: `make soak MINUTES=60`.

`schedule` (what is done to it), `values` (what was seen), `invariants` and `slopes` (what must hold) are pure; `place`
starts everything, `acts` does the faults, `watching` looks, `report` writes.
"""
