"""The words that every other room speaks: frozen dataclasses, standard library only.

Times are UTC epoch seconds, durations seconds, memory bytes, GPU-time GPU-seconds.
``jobtable`` is the one module here that uses numpy; it is never loaded at start-up.
"""
