"""How good the predictions are on a whole history: inputs, figures, page."""
