"""The round (snapshot, decide, validate, journal, apply, confirm) and its ports."""
