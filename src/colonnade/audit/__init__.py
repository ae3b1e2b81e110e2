"""What could the others learn from what we send? Attacks on a trained model, scored beside trivial guesses."""
