"""The proof: a small exact model run through a schedule op by op, its gradients compared with the unsplit step."""
