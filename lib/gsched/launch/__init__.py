"""The batch process of a job: it runs the user's script and brings signals to who catches them."""
