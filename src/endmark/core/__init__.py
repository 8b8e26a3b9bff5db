"""What bytes mean: formats, proofs, states and the decision table. Pure: no file, socket, clock or chance."""
